"""What a rule about a meant difference is, and how it looks around the field that differs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compat_tests.differential.comparing import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    excuses: Callable[[Difference], bool]
    is_rare: bool = False
    """Other seeds needed it; the long script of the row need not."""


def at(whole: Any, path: str, depth: int) -> Any:
    """What the first names of a path lead to."""
    for name in path.split(".")[:depth]:
        whole = whole[int(name)] if isinstance(whole, list) else whole[name]
    return whole


def beside(found: Difference) -> tuple[Any, Any]:
    """The structures, kwire's and Kafka's, that the field stands in."""
    depth = found.path.count(".")
    return at(found.whole[0], found.path, depth), at(found.whole[1], found.path, depth)


def codes(found: Difference, depth: int) -> tuple[int | None, int | None]:
    """Both error codes of the structure that the first names of the path lead to."""
    ours, theirs = (at(whole, found.path, depth).get("error_code") for whole in found.whole)
    return ours, theirs

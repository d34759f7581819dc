"""Rule about an intended difference, and its access to the values around the differing field."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compat_tests.differential.comparing import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    excuses: Callable[[Difference], bool]
    is_rare: bool = False
    """True if only other seeds need the rule; it may stay unused in the row's long script."""


def at(whole: Any, path: str, depth: int) -> Any:
    """Return the value at the first `depth` names of a path."""
    for name in path.split(".")[:depth]:
        whole = whole[int(name)] if isinstance(whole, list) else whole[name]
    return whole


def beside(found: Difference) -> tuple[Any, Any]:
    """Return the structures, kwire's and Kafka's, that contain the field."""
    depth = found.path.count(".")
    return at(found.whole[0], found.path, depth), at(found.whole[1], found.path, depth)


def codes(found: Difference, depth: int) -> tuple[int | None, int | None]:
    """Return both error codes of the structure at the first `depth` names of the path."""
    ours, theirs = (at(whole, found.path, depth).get("error_code") for whole in found.whole)
    return ours, theirs

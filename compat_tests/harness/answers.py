"""Comparison of responses: where two differ, and which error codes one has."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any


@dataclass(slots=True)
class Outcome:
    """Result of a script."""

    differences: list[str] = field(default_factory=list)
    played: int = 0
    without_error: int = 0


def apart(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each difference between two responses."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours | theirs:
            yield from apart(ours.get(name), theirs.get(name), f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from apart(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"\n  {path}: kwire {ours!r}, kafka {theirs!r}"


def codes(answer: Any) -> set[int]:
    """Return all error codes in a response."""
    if is_dataclass(answer):
        found = set()
        for each in fields(answer):
            value = getattr(answer, each.name)
            found |= {value} - {0} if each.name.endswith("error_code") else codes(value)
        return found
    return set().union(*map(codes, answer)) if isinstance(answer, list) else set()

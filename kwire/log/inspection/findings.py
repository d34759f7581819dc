"""Finding of a check: what is wrong, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True, frozen=True)
class Finding:
    """Finding of a check, one line of its report."""

    path: str
    what: str
    position: int | None = None
    offset: int | None = None
    is_wrong: bool = True
    """False for a finding that may be normal and is only worth a look."""

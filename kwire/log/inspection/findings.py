"""What a check found, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True, frozen=True)
class Finding:
    """One line of a report."""

    path: str
    what: str
    position: int | None = None
    offset: int | None = None
    is_wrong: bool = True
    """False for what is worth a look and may well be in order."""

"""Length of a step of an assignor."""

from __future__ import annotations

from typing import Final

UNITS_OF_STEP: Final = 1000
"""Units between two yields. A unit takes about one or two microseconds."""


class Pace:
    """Counter of units of work: the assignor yields when a step is full."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = UNITS_OF_STEP

    def is_full(self, units: int) -> bool:
        """Add units of work. Return True, and start the next step, if the step is full."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = UNITS_OF_STEP
        return True

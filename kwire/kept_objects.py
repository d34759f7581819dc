"""What is loaded and stays, out of the garbage collector's sight, which would look through it again and again."""

from __future__ import annotations

import gc
from typing import Final

RECORDS_BETWEEN: Final = 1_000_000
"""What is in flight when the collector is told to forget is never searched for cycles again: it is told seldom, and not
for what a broker loads whenever it begins to lead."""


class KeptObjects:
    """Counts what coordinators load."""

    def __init__(self) -> None:
        self._records = 0

    def loaded(self, count: int) -> None:
        """So many records more were loaded. Much garbage is not kept with them: it is collected first."""
        self._records += count
        if self._records >= RECORDS_BETWEEN:
            self._records = 0
            gc.collect()
            gc.freeze()

"""Limit of the records that are in flight in all share partitions of a broker.

The memory of a share partition grows with the records in flight that have different states, such as records that are
acquired or renewed one by one: up to 500 bytes for each record. Beyond the limit, each share partition may have an
equal part of it in flight. Those that have more acquire no new records until some of theirs are done; records that are
available again can be acquired.
"""

from __future__ import annotations

from typing import Final

from kwire.server.sharing.acquiring import IN_FLIGHT_MAX

RECORDS_MAX: Final = 500_000
"""Records in flight: 250 times the default of group.share.partition.max.record.locks."""


class InFlightLimit:
    """Number of records in flight, and of the share partitions that have some."""

    def __init__(self) -> None:
        self._records = 0
        self._partitions = 0

    def change(self, before: int, after: int) -> None:
        """Count that the number of records in flight of one share partition has changed."""
        self._records += after - before
        self._partitions += (after > 0) - (before > 0)
        assert self._records >= 0
        assert self._partitions >= 0

    def records_max(self) -> int:
        """Return the number of records that one share partition may have in flight."""
        if self._records < RECORDS_MAX:
            return IN_FLIGHT_MAX
        return max(RECORDS_MAX // self._partitions, 1)

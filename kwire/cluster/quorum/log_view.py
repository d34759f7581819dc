"""The quorum's read-only view of the metadata log, and comparisons of a follower's log with the leader's."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol


class OffsetAndEpoch(NamedTuple):
    """End offset of a log or of a snapshot, and the epoch of its last record."""

    offset: int
    epoch: int

    def is_as_new_as(self, other: OffsetAndEpoch) -> bool:
        """Return True if a log with this end holds all records that a log with the other end may have committed."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""Id of the snapshot that formatting writes. It is never sent: the first leader writes its contents into the log."""


class LogView(Protocol):
    """Read-only view of the log. An empty log has the offsets of its snapshot."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def flushed_end_offset(self) -> int:
        """End offset of the durable records, which survive a crash."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot if no record follows it; 0 if there is neither."""

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch in the log that is not greater than `epoch`, and its end offset.

        For an epoch before the first record, return the earliest snapshot's id, or (start offset, 0) without one.
        """

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Return the size of a complete snapshot in bytes; None if there is none with this id."""


def end_of(log: LogView) -> OffsetAndEpoch:
    return OffsetAndEpoch(log.end_offset, log.last_epoch)


class Position(Enum):
    """Result of comparing a follower's position with the leader's log."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class PositionCheck(NamedTuple):
    """Position check. DIVERGING: the end of the follower's epoch in the leader's log. SNAPSHOT: the one to fetch."""

    kind: Position
    at: OffsetAndEpoch


def check_position(log: LogView, offset: int, last_epoch: int) -> PositionCheck:
    """Compare a follower's end (offset, epoch of the record before it) with the leader's log (KIP-595, KIP-630)."""
    latest = log.latest_snapshot_id
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return PositionCheck(Position.SNAPSHOT, latest)  # smaller than the log from its beginning
    if log.start_offset == 0 and offset == 0 and last_epoch == 0:
        return PositionCheck(Position.VALID, OffsetAndEpoch(0, 0))
    earliest = log.earliest_snapshot_id
    if earliest is not None and latest is not None and _is_before(log, earliest, offset, last_epoch):
        return PositionCheck(Position.SNAPSHOT, latest)
    end = log.end_offset_for_epoch(last_epoch)
    if end.epoch != last_epoch or end.offset < offset:
        return PositionCheck(Position.DIVERGING, end)
    return PositionCheck(Position.VALID, OffsetAndEpoch(offset, last_epoch))


def _is_before(log: LogView, earliest: OffsetAndEpoch, offset: int, last_epoch: int) -> bool:
    if offset < log.start_offset or last_epoch < earliest.epoch:
        return True
    return offset == log.start_offset and offset > 0 and last_epoch != earliest.epoch


def truncation_point(log: LogView, diverging: OffsetAndEpoch) -> int:
    """Return the offset to truncate this log to, given an epoch's end in the leader's log (KIP-595)."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    mine = log.end_offset_for_epoch(diverging.epoch)
    if mine.epoch == diverging.epoch:
        return min(mine.offset, diverging.offset)
    return mine.offset

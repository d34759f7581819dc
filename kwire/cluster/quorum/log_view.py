"""What the quorum sees of the metadata log, and what it concludes from that. It never writes it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol


class OffsetAndEpoch(NamedTuple):
    """The end of a log or of a snapshot, and the epoch of its last record."""

    offset: int
    epoch: int

    def is_as_new_as(self, other: OffsetAndEpoch) -> bool:
        """Whether a log that ends here holds all that one that ends at `other` can have had committed."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""What formatting wrote. It is never sent: the first leader writes its content into the log."""


class LogView(Protocol):
    """The log as it is now. Offsets of an empty log are those of its snapshot."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def flushed_end_offset(self) -> int:
        """The end of what a crash cannot take away."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if there is none after it; 0 when there is nothing."""

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch in the log that is not after `epoch`, and where it ends.

        An epoch before the first record gives the earliest snapshot's, or (start offset, 0) without one.
        """

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The bytes of a complete snapshot; None if there is none of this id."""


def end_of(log: LogView) -> OffsetAndEpoch:
    return OffsetAndEpoch(log.end_offset, log.last_epoch)


class Position(Enum):
    """What a follower at some position needs."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class PositionCheck(NamedTuple):
    """DIVERGING: where the leader's log ends for the follower's epoch. SNAPSHOT: which one to fetch."""

    kind: Position
    at: OffsetAndEpoch


def check_position(log: LogView, offset: int, last_epoch: int) -> PositionCheck:
    """Compare a follower's end (offset, epoch of the record before it) with the leader's log (KIP-595, KIP-630)."""
    latest = log.latest_snapshot_id
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return PositionCheck(Position.SNAPSHOT, latest)  # less to read than the log from its beginning
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
    """Where to cut this log, given where the leader's log ends for an epoch (KIP-595)."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    mine = log.end_offset_for_epoch(diverging.epoch)
    if mine.epoch == diverging.epoch:
        return min(mine.offset, diverging.offset)
    return mine.offset

"""Where a follower cuts its log back when its leader's went another way (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kwire.log.leader_epochs import NO_EPOCH


class EpochEnd(NamedTuple):
    """The largest epoch that a leader has, out of those up to the one it was asked for, and where it ends there."""

    epoch: int
    end_offset: int


class Epochs(Protocol):
    """A log, as far as its leader epochs go."""

    @property
    def log_end_offset(self) -> int:
        """Offset of the next append."""

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch <= epoch, where it ends), (-1, -1) if unknown."""


def truncation_offset(log: Epochs, leaders: EpochEnd) -> int:
    """The offset to cut the log at: no record that the leader has in the same epoch is cut off.

    A follower that does not know the leader's epoch cuts back to the end of the largest one below, and finds out with
    its next fetch whether that is in common.
    """
    epoch, end_offset = log.epoch_end_offset(leaders.epoch)
    if epoch == NO_EPOCH:
        # All that is here came later than what the leader speaks of.
        return min(leaders.end_offset, log.log_end_offset)
    if epoch != leaders.epoch:
        return min(end_offset, log.log_end_offset)
    return min(end_offset, leaders.end_offset, log.log_end_offset)

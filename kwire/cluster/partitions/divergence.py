"""Offset to which a follower truncates a log that has diverged from its leader's (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kwire.log.leader_epochs import NO_EPOCH


class EpochEnd(NamedTuple):
    """Largest epoch of the leader that is not above the requested one, and its end offset."""

    epoch: int
    end_offset: int


class Epochs(Protocol):
    """View of a log's leader epochs."""

    @property
    def log_end_offset(self) -> int:
        """Log end offset: the offset of the next append."""

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return (largest known epoch <= `epoch`, its end offset).

        If all known epochs are larger, return (`epoch`, start of the first one). Return (-1, -1) if there is no entry
        or `epoch` is above the latest one (KIP-279).
        """


def truncation_offset(log: Epochs, leader_end: EpochEnd) -> int:
    """Return the offset to truncate the log to. Records that the leader has in the same epoch are kept.

    A follower that does not have the leader's epoch truncates to the end of the largest epoch below it. Its next fetch
    shows whether that epoch is common to both.
    """
    epoch, end_offset = log.epoch_end_offset(leader_end.epoch)
    if epoch == NO_EPOCH:
        # This log has no entry for the epoch: it has no epochs, or only smaller ones.
        return min(leader_end.end_offset, log.log_end_offset)
    if epoch != leader_end.epoch:
        return min(end_offset, log.log_end_offset)
    return min(end_offset, leader_end.end_offset, log.log_end_offset)

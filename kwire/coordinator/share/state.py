"""State of a share partition: a snapshot, the changes of an update, and what the coordinator stores besides them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kwire.coordinator.share.batches import NO_OFFSET, Batches, StateBatch, combine

NO_EPOCH = -1
"""Epoch of a request that is not checked."""
FIRST_EPOCH = 0
UNKNOWN_COUNT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """Changes of a share partition's state since its last snapshot."""

    snapshot_epoch: int
    """Epoch of the snapshot that is updated."""
    leader_epoch: int
    start_offset: int
    """-1 if unchanged."""
    delivery_complete_count: int
    batches: Batches


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """State of a share partition."""

    snapshot_epoch: int
    """Number of the snapshot, one higher than that of the snapshot before."""
    state_epoch: int
    """Epoch of the initialisation: a later one discards what was stored before."""
    leader_epoch: int
    start_offset: int
    """-1 if unknown yet."""
    delivery_complete_count: int
    """Records from the start offset on that are acknowledged or archived; -1 if unknown (KIP-1226)."""
    batches: Batches
    create_ms: int
    """Time of the last snapshot that a request caused."""
    write_ms: int
    """Time of the last snapshot; later than `create_ms` if the coordinator has written it again."""

    def updated(self, update: ShareUpdate) -> ShareState:
        """Return the state after an update."""
        start_offset = self.start_offset if update.start_offset == NO_OFFSET else update.start_offset
        return replace(
            self,
            leader_epoch=self.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=combine(self.batches, update.batches, start_offset),
        )


class SharePartition:
    """Share partition of a coordinator's shard."""

    __slots__ = ("leader_epoch", "snapshot_offset", "state", "state_epoch", "update_count")

    def __init__(self, state: ShareState, offset: int) -> None:
        self.state = state
        self.snapshot_offset = offset
        """Offset of the last snapshot in __share_group_state: no earlier record is needed."""
        self.update_count = 0
        """Updates since the last snapshot that was due because of their number."""
        self.leader_epoch = state.leader_epoch
        """Highest leader epoch that was stored: an initialisation resets that of the state, but not this one."""
        self.state_epoch = state.state_epoch
        """Highest state epoch that was stored."""

    def take_snapshot(self, state: ShareState, offset: int, updates_per_snapshot: int) -> None:
        """Replace the state. As in Kafka, only a snapshot that was due resets the number of updates."""
        self.state = state
        self.snapshot_offset = offset
        if self.update_count >= updates_per_snapshot:
            self.update_count = 0
        self.leader_epoch = max(self.leader_epoch, state.leader_epoch)
        self.state_epoch = max(self.state_epoch, state.state_epoch)

    def take_update(self, update: ShareUpdate) -> None:
        self.state = self.state.updated(update)
        self.update_count += 1
        self.leader_epoch = max(self.leader_epoch, update.leader_epoch)


def initial_state(*, snapshot_epoch: int, state_epoch: int, start_offset: int, now_ms: int) -> ShareState:
    """Return the state after an initialisation. Without a start offset the number of delivered records is unknown."""
    return ShareState(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=FIRST_EPOCH,
        start_offset=start_offset,
        delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
        batches=(),
        create_ms=now_ms,
        write_ms=now_ms,
    )


def next_record(
    partition: SharePartition,
    *,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
    updates_per_snapshot: int,
    now_ms: int,
) -> ShareState | ShareUpdate:
    """Return the record of a change: an update, or a snapshot after `updates_per_snapshot` updates."""
    state = partition.state
    update = ShareUpdate(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        batches=combine((), batches, start_offset),
    )
    if partition.update_count < updates_per_snapshot:
        return update
    after = state.updated(update)
    return replace(after, snapshot_epoch=state.snapshot_epoch + 1, create_ms=now_ms, write_ms=now_ms)


class ShareSummary(NamedTuple):
    """State of a share partition without its batches."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int

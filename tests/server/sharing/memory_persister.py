"""Persister in memory, with the rules of the share coordinator, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.sharing.persister import StoredBatch
from kwire.server.sharing.states import RecordState

Key = tuple[str, UUID, int]


@dataclass
class StoredState:
    """State of one share partition as it is stored."""

    state_epoch: int = 0
    leader_epoch: int = -1
    start_offset: int = -1
    delivery_complete_count: int = 0
    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Delivery state and count of each record."""

    finals: set[int] = field(default_factory=set)
    """Records that ever were in a final state."""

    def batches(self) -> list[StoredBatch]:
        found: list[StoredBatch] = []
        for offset, (state, count) in sorted(self.records.items()):
            if found and found[-1][1:] == (offset - 1, state, count):
                found[-1] = (found[-1][0], offset, state, count)
            else:
                found.append((offset, offset, state, count))
        return found

    def write(self, start_offset: int, batches: Sequence[StoredBatch]) -> None:
        assert start_offset >= self.start_offset, "the start offset never goes back"
        self.start_offset = start_offset
        for first, last, state, count in batches:
            for offset in range(max(first, start_offset), last + 1):
                self.records[offset] = state, count
                if state >= RecordState.ACKNOWLEDGED:
                    self.finals.add(offset)
        self.records = {offset: value for offset, value in self.records.items() if offset >= start_offset}


class MemoryPersister:
    """Persister that fails on request."""

    def __init__(self) -> None:
        self.states: dict[Key, StoredState] = {}
        self.read_errors: list[ErrorCode] = []
        """Errors of the next reads."""
        self.write_errors: list[ErrorCode] = []
        self.writes = 0
        self.blocked: asyncio.Event | None = None
        """Writes wait for this event."""
        self._writing: set[Key] = set()

    @property
    def is_writing(self) -> bool:
        return bool(self._writing)

    async def read_state(
        self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int
    ) -> tuple[int, int, Sequence[StoredBatch]]:
        await asyncio.sleep(0)
        if self.read_errors:
            raise KafkaError(self.read_errors.pop(0))
        state = self.states.setdefault((group_id, topic_id, partition), StoredState())
        if leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        state.leader_epoch = leader_epoch
        return state.state_epoch, state.start_offset, state.batches()

    async def write_state(
        self,
        group_id: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StoredBatch],
    ) -> None:
        key = group_id, topic_id, partition
        assert key not in self._writing, "one write at a time"
        self._writing.add(key)
        try:
            await (asyncio.sleep(0) if self.blocked is None else self.blocked.wait())
        finally:
            self._writing.discard(key)
        self.writes += 1
        if self.write_errors:
            raise KafkaError(self.write_errors.pop(0))
        state = self.states[key]
        if leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        state.write(start_offset, batches)
        state.delivery_complete_count = delivery_complete_count

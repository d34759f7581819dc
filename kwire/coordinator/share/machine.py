"""Share coordinator's state in one shard: share partitions, rebuilt by replay."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from uuid import UUID

from kwire.coordinator.shard import Step, Write
from kwire.coordinator.share.config import ShareStateConfig
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.memory import ShareMemory
from kwire.coordinator.share.records import ShareRecord, decode_share_record, encode_share_record
from kwire.coordinator.share.state import SharePartition, ShareState, ShareUpdate
from kwire.coordinator.timers import Timers
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)

RECORDS_AT_ONCE: Final = 64
"""Records that one step writes without a request; their batches count as well."""
COLD, DELETED = "cold", "deleted"
"""Names of the timers."""


class ShareMachine:
    """Share partitions that map to one partition of __share_group_state."""

    def __init__(
        self,
        timers: Timers[Step[ShareRecord]],
        *,
        config: ShareStateConfig,
        clock: Clock,
        memory: ShareMemory,
        has_topic: Callable[[UUID], bool],
    ) -> None:
        """Create an empty state; `has_topic` returns True if the newest committed metadata contain a topic."""
        self.partitions: dict[ShareKey, SharePartition] = {}
        self._by_topic: dict[UUID, dict[ShareKey, None]] = {}
        self._timers = timers
        self._config = config
        self._clock = clock
        self._memory = memory
        self._has_topic = has_topic
        self._tombstone_offset = -1
        """Offset of the last tombstone."""
        self._cold: deque[ShareKey] = deque()
        """Share partitions whose snapshots are written again. One scan finds them, steps write them."""
        self._deleted: deque[ShareKey] = deque()
        """Share partitions of deleted topics that have no tombstone yet."""

    # --- interface for the runtime

    def encode(self, record: ShareRecord) -> tuple[bytes, bytes | None]:
        return encode_share_record(record)

    def decode(self, key: bytes, value: bytes | None) -> ShareRecord:
        return decode_share_record(key, value)

    def replay(self, record: ShareRecord, offset: int, producer_id: int) -> None:
        key, value = record
        partition = self.partitions.get(key)
        batches_before = 0 if partition is None else len(partition.state.batches)
        if value is None:
            self._remove(key, offset)
        elif partition is None:
            partition = self._add(key, value, offset)
        elif isinstance(value, ShareUpdate):
            partition.take_update(value)
        else:
            partition.take_snapshot(value, offset, self._config.updates_per_snapshot)
        batches = 0 if value is None or partition is None else len(partition.state.batches)
        self._memory.count_batches(batches - batches_before)

    def _add(self, key: ShareKey, value: ShareState | ShareUpdate, offset: int) -> SharePartition:
        """Add a share partition. A log that begins with an update has no snapshot of it, which Kafka accepts too."""
        state = _state_without_snapshot(value) if isinstance(value, ShareUpdate) else value
        partition = self.partitions[key] = SharePartition(state, offset)
        partition.update_count = int(isinstance(value, ShareUpdate))
        self._by_topic.setdefault(key.topic_id, {})[key] = None
        self._memory.add(key)
        return partition

    def _remove(self, key: ShareKey, offset: int) -> None:
        self._tombstone_offset = offset
        if self.partitions.pop(key, None) is None:
            return
        self._memory.remove(key)
        of_topic = self._by_topic[key.topic_id]
        del of_topic[key]
        if not of_topic:
            del self._by_topic[key.topic_id]

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Do nothing, since this topic is never written in a transaction."""

    def loaded(self) -> Write[ShareRecord, None] | None:
        """Start the timers, and delete the states of topics that were deleted while no coordinator was active.

        The metadata of this leader contain each topic of the states, unless it was deleted: an earlier leader has
        checked that it exists.
        """
        for topic_id in [each for each in self._by_topic if not self._has_topic(each)]:
            self.delete_topic(topic_id)
        self._schedule_cold_snapshots()
        return None

    def unloaded(self) -> None:
        """Clear the state."""
        for key, partition in self.partitions.items():
            self._memory.remove(key)
            self._memory.count_batches(-len(partition.state.batches))
        self.partitions.clear()
        self._by_topic.clear()
        self._cold.clear()
        self._deleted.clear()

    # --- pruning

    def lowest_needed_offset(self) -> int:
        """Return the offset below which no record is needed, or -1 if there is none.

        Every share partition needs its last snapshot and what follows.
        """
        offsets = [partition.snapshot_offset for partition in self.partitions.values()]
        return min(offsets) if offsets else self._tombstone_offset

    # --- deleted topics

    def delete_topic(self, topic_id: UUID) -> None:
        """Delete the share partitions of a deleted topic in steps."""
        if topic_id in self._by_topic:
            self._deleted += self._by_topic[topic_id]
            self._timers.schedule(DELETED, 0, self._delete_some)

    def _delete_some(self) -> Write[ShareRecord, None] | None:
        """Write tombstones for some share partitions. If they are rejected, the next interval tries again."""
        keys = [self._deleted.popleft() for _ in range(min(len(self._deleted), RECORDS_AT_ONCE))]
        tombstones = [ShareRecord(key, None) for key in keys if key in self.partitions]
        if self._deleted:
            self._timers.schedule(DELETED, 0, self._delete_some)
        if not tombstones:
            return None

        def outcome(error: KafkaError | None) -> None:
            left = [record.key for record in tombstones if record.key in self.partitions]
            if error is not None and left:
                logger.warning("%d share partitions of deleted topics cannot be deleted yet: %s", len(left), error)
                self._deleted.extend(left)
                self._timers.schedule(DELETED, self._config.write_timeout_ms, self._delete_some)

        return Write(answer=None, records=tombstones, outcome=outcome)

    # --- snapshots of share partitions without traffic

    def _schedule_cold_snapshots(self) -> None:
        self._timers.schedule(COLD, self._config.cold_snapshot_interval_ms, self._find_cold)

    def _find_cold(self) -> None:
        """Find the share partitions whose snapshots are old.

        Their old snapshots would keep the records of all others. If all snapshots were written again already, nothing
        has happened since, as in Kafka.
        """
        if any(each.state.write_ms == each.state.create_ms for each in self.partitions.values()):
            due_ms = self._clock.wall_ms() - self._config.cold_snapshot_interval_ms
            self._cold.extend(key for key, each in self.partitions.items() if each.state.write_ms <= due_ms)
        if self._cold:
            self._timers.schedule(COLD, 0, self._snapshot_cold)
        else:
            self._schedule_cold_snapshots()

    def _snapshot_cold(self) -> Write[ShareRecord, None] | None:
        """Write the snapshots of some share partitions again."""
        records: list[ShareRecord] = []
        cost = 0
        now_ms = self._clock.wall_ms()
        while self._cold and cost < RECORDS_AT_ONCE:
            key = self._cold.popleft()
            partition = self.partitions.get(key)
            if partition is not None:
                state = partition.state
                records.append(
                    ShareRecord(key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_ms=now_ms))
                )
                cost += 1 + len(state.batches) // 10
        if self._cold:
            self._timers.schedule(COLD, 0, self._snapshot_cold)
        else:
            self._schedule_cold_snapshots()
        return Write(answer=None, records=records, atomic=False) if records else None


def _state_without_snapshot(update: ShareUpdate) -> ShareState:
    return ShareState(
        snapshot_epoch=update.snapshot_epoch,
        state_epoch=0,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=update.batches,
        create_ms=0,
        write_ms=0,
    )

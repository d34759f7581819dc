"""A partition on this broker: its log, its high watermark, and those who wait for either to move.

In a replica set of one the high watermark follows the log's end at once, unless flush.messages asks for a flush first:
then it follows what is durable, and what is not can neither be read nor is it acknowledged. The waiting is held by the
partition itself: there is no purgatory. A waiting fetch is told of each new stretch of bytes and decides for itself when
it has enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from kwire.cluster.group_commit import GroupCommit
from kwire.cluster.image import PartitionImage
from kwire.log.append_result import AppendResult
from kwire.log.batch_validation import AppendOrigin
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode, KafkaError

EPOCH_BUMP_SINCE = 2
"""The transaction version from which each transaction has an epoch of its own (KIP-890)."""
NO_EPOCH = -1
ACKS_ALL = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Waiter(Protocol):
    """A fetch that waits for data, an append that waits to be durable."""

    def more_data(self, size: int) -> None:
        """Bytes became readable in one of its partitions; size 0 says that something else changed: look again."""


class Verification:
    """Batches of one producer and epoch that wait until they are known to be part of its transaction."""

    __slots__ = ("is_void", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[int, Callable[[KafkaError | None], None]]] = []
        """(sequence, told what came of it), in the order in which they came."""
        self.is_void = False
        """Whether the transaction has ended meanwhile."""


class Partition:
    """State of one partition on its leader, or on a broker that may lead it. Changed on the event loop only."""

    __slots__ = (
        "_group_commit",
        "_has_peers",
        "_unflushed_bytes",
        "_waiters",
        "high_watermark",
        "image",
        "index",
        "is_led",
        "is_removed",
        "leader_id",
        "log",
        "refused_sequences",
        "topic",
        "topic_id",
        "verifications",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: UUID,
        index: int,
        image: PartitionImage,
        log: PartitionLog,
        group_commit: GroupCommit,
        is_led: bool = True,
    ) -> None:
        """`is_led` says whether this broker is the leader that the image names."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.image = image
        self.leader_id = image.leader
        self.is_led = is_led
        """Whether this broker leads it: only then may clients write and read here."""
        self._has_peers = len(image.isr) > 1
        """Whether others have to have a record before it is committed."""
        self.is_removed = False
        """Whether its topic was deleted, or this broker has it no more."""
        self.high_watermark = log.log_end_offset
        """First offset that consumers may not see; never above the log's end, never goes back."""
        self._waiters: dict[Waiter, None] = {}
        self._group_commit = group_commit
        self._unflushed_bytes = 0
        """Of appends that wait for a flush."""
        self.verifications: dict[tuple[int, int], Verification] = {}
        """By producer id and epoch, what waits to become part of a transaction."""
        self.refused_sequences: dict[int, tuple[int, int]] = {}
        """By producer id, (epoch, lowest sequence) of what was not let in: it will come again, and before what
        follows it."""
        if is_led:
            log.assign_epoch_start(image.leader_epoch, log.log_end_offset)

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    def check_epoch(self, epoch: int) -> None:
        """Refuse a client that knows another leader epoch than this partition (KIP-320)."""
        if epoch in (NO_EPOCH, self.image.leader_epoch):
            return
        older = epoch < self.image.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    # --- writing

    def append(
        self, batches: bytearray | memoryview | bytes, acks: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        """Append as the leader; the batches are patched in place. Raises KafkaError, and then nothing is stored."""
        log = self.log
        if acks == ACKS_ALL and len(self.image.isr) < log.config.min_insync_replicas:
            self._check_insync_replicas()
        result = log.append(batches, leader_epoch=self.image.leader_epoch, origin=origin)
        if not result.is_duplicate:
            self._appended(len(batches))
        return result

    def append_marker(
        self, batch: bytes, producer_id: int, producer_epoch: int, *, transaction_version: int
    ) -> AppendResult:
        """Append a control batch that ends a producer's transaction; what waits to be part of that one never will be.

        Raises KafkaError, and then nothing is stored.
        """
        log = self.log
        if len(self.image.isr) < log.config.min_insync_replicas:
            self._check_insync_replicas()
        result = log.append(
            batch,
            leader_epoch=self.image.leader_epoch,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
        )
        self.refused_sequences.pop(producer_id, None)
        for (waiting_id, epoch), verification in self.verifications.items():
            # With an epoch per transaction the marker has the next one, which the next transaction may wait with.
            is_over = epoch < producer_epoch or (epoch == producer_epoch and transaction_version < EPOCH_BUMP_SINCE)
            if waiting_id == producer_id and is_over:
                verification.is_void = True
        self._appended(len(batch))
        return result

    def _appended(self, size: int) -> None:
        log = self.log
        if self._unflushed_bytes or log.unflushed_records >= log.config.flush_messages:
            self._unflushed_bytes += size
            self._group_commit.request(self)
        elif not self._has_peers:
            self._advance(log.log_end_offset, size)

    def _check_insync_replicas(self) -> None:
        """More than there are replicas at all is never asked for."""
        needed = min(self.log.config.min_insync_replicas, len(self.image.replicas))
        if len(self.image.isr) < needed:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.image.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {needed} for partition {self.topic}-{self.index}",
            )

    @property
    def waits_for_flush(self) -> bool:
        """Whether there are appends that no flush has covered."""
        return self._unflushed_bytes > 0

    def flushed(self) -> None:
        """All below the log's recovery point is durable."""
        end = self.log.recovery_point
        size = self._unflushed_bytes
        if end == self.log.log_end_offset:
            self._unflushed_bytes = 0
        if end > self.high_watermark and not self._has_peers:
            self._advance(end, size)

    def _advance(self, end: int, size: int) -> None:
        assert end >= self.high_watermark, "the high watermark never goes back"
        self.high_watermark = end
        if self._waiters:
            for waiter in list(self._waiters):
                waiter.more_data(size)

    # --- reading

    def end_offset(self, isolation_level: int) -> int:
        """First offset that a reader of this isolation level may not see."""
        if isolation_level == READ_COMMITTED:
            return self.log.last_stable_offset(self.high_watermark)
        return self.high_watermark

    def wait(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def stop_waiting(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    # --- changes

    def delete_records_before(self, offset: int) -> int:
        """Move the log start; -1 stands for the high watermark. The new log start offset."""
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(target)
        self.wake()
        return self.log.log_start_offset

    def take_log(self, log: PartitionLog) -> None:
        """Go on with a log that has the same batches in another directory, all of them durable.

        Who waits goes on waiting: nothing has changed for them, unless it was the flush that they waited for.
        """
        self.log = log
        if self.waits_for_flush:
            self.flushed()

    def update(self, image: PartitionImage, *, is_led: bool) -> None:
        """Follow the metadata. Who waits here looks again when this broker leads no more."""
        if is_led and (image.leader_epoch != self.image.leader_epoch or not self.is_led):
            self.log.assign_epoch_start(image.leader_epoch, self.log.log_end_offset)
        was_led, self.is_led = self.is_led, is_led
        self.image = image
        self.leader_id = image.leader
        self._has_peers = len(image.isr) > 1
        if was_led and not is_led:
            self.wake()

    def wake(self) -> None:
        """Let everybody who waits look again: the partition changed or is gone."""
        for waiter in list(self._waiters):
            waiter.more_data(0)

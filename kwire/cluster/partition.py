"""A partition on this broker: its log, its high watermark, and those who wait for either to move.

Its leader takes appends, hands them to followers, and knows from their fetches how far the high watermark may go: up to
where every in-sync replica has the log (kwire.cluster.replication.in_sync). A follower appends what its leader sends
and takes its high watermark over. Without other replicas the high watermark follows the log's end at once.

Where flush.messages asks for a flush first, what is not durable does not count: not for the high watermark, and not as
fetched by a follower. The waiting is held by the partition itself: there is no purgatory. A waiting fetch is told of
each new stretch of bytes and decides for itself when it has enough.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from kwire.cluster.group_commit import GroupCommit
from kwire.cluster.image import PartitionImage
from kwire.cluster.replication.divergence import EpochEnd, truncation_offset
from kwire.cluster.replication.in_sync import InSync, Peers
from kwire.cluster.verification import Verification
from kwire.cluster.waiters import Waiter, Watcher
from kwire.log.append_result import AppendResult
from kwire.log.batch_validation import AppendOrigin, Validated
from kwire.log.lookup import appended_bytes
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.primitives import Buffer
from kwire.protocol.records import iterate_headers

logger = logging.getLogger(__name__)
EPOCH_BUMP_SINCE = 2
"""The transaction version from which each transaction has an epoch of its own (KIP-890)."""
NO_EPOCH = -1
ACKS_ALL = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
_NOBODY: Final[dict[Watcher, None]] = {}  # watches most partitions; never changed


class Partition:
    """State of one partition on its leader, or on a broker that may lead it. Changed on the event loop only."""

    __slots__ = (
        "_group_commit",
        "_leader_high_watermark",
        "_peers",
        "_tail_waiters",
        "_unflushed_bytes",
        "_waiters",
        "_watchers",
        "high_watermark",
        "image",
        "in_sync",
        "index",
        "is_led",
        "is_removed",
        "leader_id",
        "log",
        "on_settled",
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
        peers: Peers,
        is_led: bool = True,
        high_watermark: int = 0,
    ) -> None:
        """`is_led` says whether this broker is the leader that the image names.

        `high_watermark` is that of the last checkpoint; without other replicas all that is in the log is committed.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.image = image
        self.leader_id = image.leader
        self.is_led = False
        """Whether this broker leads it: only then may clients write here."""
        self.in_sync: InSync | None = None
        """Of a led partition that others have replicas of: what is known of them."""
        self.is_removed = False
        """Whether its topic was deleted, or this broker has it no more."""
        is_alone = len(image.replicas) == 1
        committed = log.log_end_offset if is_alone else min(high_watermark, log.log_end_offset)
        self.high_watermark = max(committed, log.log_start_offset)
        """First offset that consumers may not see; never above the log's end. It goes back with a truncation only."""
        log.producers.replicated(self.high_watermark)
        self._waiters: dict[Waiter, None] = {}
        self._tail_waiters: dict[Waiter, None] = {}
        self._watchers = _NOBODY
        self._group_commit = group_commit
        self._peers = peers
        self._unflushed_bytes = 0
        """Of appends that wait for a flush."""
        self._leader_high_watermark = 0
        """What the leader said last."""
        self.on_settled: Callable[[], None] | None = None
        """Told when a follower's log is durable to its end again: it may be fetched for."""
        self.verifications: dict[tuple[int, int], Verification] = {}
        """By producer id and epoch, what waits to become part of a transaction."""
        if is_led:
            self._lead(image)

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
        self, batches: Buffer, acks: int, origin: AppendOrigin = AppendOrigin.CLIENT, validated: Validated | None = None
    ) -> AppendResult:
        """Append as the leader; the batches are patched in place. Raises KafkaError, and then nothing is stored."""
        log = self.log
        if acks == ACKS_ALL and len(self.image.isr) < log.config.min_insync_replicas:
            self._check_insync_replicas()
        result = log.append(batches, leader_epoch=self.image.leader_epoch, origin=origin, validated=validated)
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
        for (waiting_id, epoch), verification in self.verifications.items():
            # With an epoch per transaction the marker has the next one, which the next transaction may wait with.
            is_over = epoch < producer_epoch or (epoch == producer_epoch and transaction_version < EPOCH_BUMP_SINCE)
            if waiting_id == producer_id and is_over:
                verification.refusal = KafkaError(
                    ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
                )
        self._appended(len(batch))
        return result

    def _appended(self, size: int) -> None:
        log = self.log
        if self._unflushed_bytes or log.unflushed_records >= log.config.flush_messages:
            self._unflushed_bytes += size
            self._group_commit.request(self)
            if self.in_sync is not None:
                self._offer(self.in_sync, size)
        elif self.in_sync is None:
            self._advance(log.log_end_offset, size)
        else:
            self._offer(self.in_sync, size)
            self._advance_over_in_sync()

    def _offer(self, in_sync: InSync, size: int) -> None:
        """Let followers have what was appended."""
        in_sync.appended(self.log.log_end_offset, size)
        self._tell_of_tail(size)

    def _tell_of_tail(self, size: int) -> None:
        if self._tail_waiters:
            for waiter in list(self._tail_waiters):
                waiter.more_data(size)

    def _check_insync_replicas(self) -> None:
        """More than there are replicas at all is never asked for."""
        if not self.has_enough_in_sync:
            needed = min(self.log.config.min_insync_replicas, len(self.image.replicas))
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
        is_settled = end == self.log.log_end_offset and self.log.unsettled is None
        if is_settled:
            self._unflushed_bytes = 0
        if not self.is_led:
            self._take_high_watermark(self._leader_high_watermark)
            if is_settled and self.on_settled is not None:
                self.on_settled()
        elif self.in_sync is not None:
            self._advance_over_in_sync()
            self._tell_of_tail(1)
        elif end > self.high_watermark:
            self._advance(end, size)

    @property
    def durable_end(self) -> int:
        """Where that part of the log ends that counts: all of it, or what is flushed if that was asked for."""
        return self.log.recovery_point if self._unflushed_bytes else self.log.log_end_offset

    def is_answered(self, last_offset: int, acks: int) -> bool:
        """Whether an append that ends there is what its client asked for: durable, and with acks=all committed."""
        if acks == ACKS_ALL or self.in_sync is None:
            return self.high_watermark > last_offset
        return self.durable_end > last_offset

    def _advance_over_in_sync(self) -> None:
        """Commit what all in-sync replicas have, if they are enough."""
        in_sync = self.in_sync
        assert in_sync is not None
        if not self.has_enough_in_sync:
            return
        end = in_sync.committed_end(self.durable_end)
        if end > self.high_watermark:
            self._advance(end, in_sync.committed_bytes(end))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether min.insync.replicas are in sync; more than there are replicas at all is never asked for."""
        return len(self.image.isr) >= min(self.log.config.min_insync_replicas, len(self.image.replicas))

    def _advance(self, end: int, size: int) -> None:
        assert self.high_watermark <= end <= self.log.log_end_offset, "the high watermark goes on within the log"
        self.high_watermark = end
        self.log.producers.replicated(end)
        if self._waiters:
            for waiter in list(self._waiters):
                waiter.more_data(size)
        if self._watchers:
            for watcher in list(self._watchers):
                watcher.moved(size)

    # --- followers, as their leader sees them

    def standings_changed(self) -> None:
        """Other brokers were fenced, came or went: who is waited for may be another set now."""
        if self.in_sync is not None:
            self._advance_over_in_sync()
            self._tell_of_tail(0)

    def follower_fetched(
        self, broker_id: int, *, offset: int, log_start_offset: int, broker_epoch: int, epoch: int
    ) -> None:
        """A follower asks for what comes at an offset: it has all below. Raises KafkaError if it is none.

        Call it only when its log agrees with this one up to there.
        """
        in_sync = self.in_sync
        if in_sync is None or not in_sync.has(broker_id):
            # One that knows the epoch may be ahead of this broker's metadata.
            knows_epoch = epoch != NO_EPOCH
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._peers.is_superseded(broker_id, broker_epoch):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # what it had, the process after it may have lost
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        follower = in_sync.follower(broker_id)
        has_cut = follower.log_start_offset != log_start_offset
        follower.fetched(
            offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end=self.log.log_end_offset,
            now_ms=self._peers.now_ms(),
        )
        if in_sync.wants_in(broker_id, self.high_watermark):
            self._peers.changes_wanted(self)
        self._advance_over_in_sync()
        if has_cut:
            self._tell_of_tail(0)

    def shrink_in_sync(self) -> None:
        """Look for replicas that have been late for too long: none of them is waited for any more."""
        if self.in_sync is None:
            return
        if self.in_sync.wants_out(self.log.log_end_offset):
            self._peers.changes_wanted(self)
        self._advance_over_in_sync()

    # --- following

    def append_as_follower(
        self, batches: bytes | bytearray | memoryview, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> None:
        """Take what the leader of an epoch sent for the log's end. Raises KafkaError, DiskFailure."""
        assert not self.is_led, "a leader appends what clients send"
        assert leader_epoch == self.image.leader_epoch, "what an earlier leader sent is dropped"
        log = self.log
        if batches:
            if log.log_start_offset == log.log_end_offset:
                self._begin_with_whole_batch(batches)
            log.append(batches, leader_epoch=leader_epoch, origin=AppendOrigin.REPLICATION)
            if self._unflushed_bytes or log.unflushed_records >= log.config.flush_messages:
                self._unflushed_bytes += len(batches)
                self._group_commit.request(self)
        self._take_high_watermark(high_watermark)
        if self.log.log_start_offset < log_start_offset <= self.high_watermark:
            log.delete_records_before(log_start_offset)
            self.log_start_moved()

    def _begin_with_whole_batch(self, batches: bytes | bytearray | memoryview) -> None:
        """Let an empty log begin where the leader's first batch does: the leader's log start may be inside of it."""
        first = next((header for _, header in iterate_headers(batches)), None)
        if first is not None and first.base_offset < self.log.log_end_offset <= first.last_offset:
            self.start_anew_at(first.base_offset)

    def _take_high_watermark(self, leaders: int) -> None:
        self._leader_high_watermark = leaders
        end = min(leaders, self.durable_end)
        if end > self.high_watermark:
            self._advance(end, appended_bytes(self.log.segments, self.high_watermark, end, self.log.log_end_offset))

    def truncate_as_follower(self, leaders: EpochEnd) -> None:
        """Cut off what the leader does not have; it says that the logs part at or before there."""
        self._truncate_to(truncation_offset(self.log, leaders))

    def truncate_to_leaders_end(self, end_offset: int) -> None:
        """Cut off what lies behind the leader's end: after an unclean election it may have less than this replica."""
        self._truncate_to(end_offset)

    def _truncate_to(self, offset: int) -> None:
        assert not self.is_led, "a leader's log is what counts"
        self.log.cut_to(offset)  # which may not be ready yet
        if offset < self.high_watermark:
            logger.warning(
                "%s-%d is cut back to %d, below its high watermark %d: broker %d, its leader in epoch %d, has not got "
                "what was committed",
                *(self.topic, self.index, offset, self.high_watermark, self.leader_id, self.leader_epoch),
            )
        self._shorten()
        if self.log.unsettled is not None:
            self._unflushed_bytes += 1
            self._group_commit.request(self)

    def start_anew_at(self, offset: int) -> None:
        """Throw all away and begin at an offset: the leader has nothing older."""
        assert not self.is_led, "a leader's log is what counts"
        self.log.truncate_fully_and_start_at(offset)
        self._shorten()
        self.high_watermark = offset

    def _shorten(self) -> None:
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self.log.producers.replicated(self.high_watermark)
        if self.log.recovery_point == self.log.log_end_offset:
            self._unflushed_bytes = 0
        for watcher in list(self._watchers):
            watcher.moved(0)

    # --- reading

    def end_offset(self, isolation_level: int) -> int:
        """First offset that a reader of this isolation level may not see."""
        if isolation_level == READ_COMMITTED:
            return self.log.last_stable_offset(self.high_watermark)
        return self.high_watermark

    def check_end_known(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE while the high watermark is below the start of this leader's epoch (KIP-207).

        Consumers of the leader before may have seen more than this one knows to be committed.
        """
        if self.in_sync is not None and self.high_watermark < self.in_sync.epoch_start:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def wait(self, waiter: Waiter, *, for_tail: bool = False) -> None:
        """Tell the waiter of what is committed; or, for the tail, of what is appended and what is durable of it."""
        (self._tail_waiters if for_tail else self._waiters)[waiter] = None

    def stop_waiting(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._tail_waiters.pop(waiter, None)

    def watch(self, watcher: Watcher) -> None:
        """Tell the watcher of everything from now on."""
        if self._watchers is _NOBODY:
            self._watchers = {}
        self._watchers[watcher] = None

    def stop_watching(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def log_start_moved(self) -> None:
        """Retention has deleted records."""
        for watcher in list(self._watchers):
            watcher.log_start_moved()

    # --- changes

    def delete_records_before(self, offset: int) -> int:
        """Move the log start; -1 stands for the high watermark. The new log start offset.

        Followers are told at once; `low_watermark` says when they have moved theirs.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(target)
        self.wake()
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """Below it no live replica has anything to read."""
        start = self.log.log_start_offset
        return start if self.in_sync is None else self.in_sync.low_watermark(start)

    def take_log(self, log: PartitionLog) -> None:
        """Go on with a log that has the same batches in another directory, all of them durable.

        Who waits goes on waiting: nothing has changed for them, unless it was the flush that they waited for.
        """
        self.log = log
        log.producers.replicated(self.high_watermark)
        if self.waits_for_flush:
            self.flushed()

    def update(self, image: PartitionImage, *, is_led: bool) -> None:
        """Follow the metadata. Who waits here looks again when this broker leads no more, or in another epoch."""
        is_new_epoch = image.leader_epoch != self.image.leader_epoch
        was_led = self.is_led
        self.image = image
        self.leader_id = image.leader
        if is_led and (is_new_epoch or not was_led):
            self._lead(image)
        elif is_led:
            self._follow_in_sync(image)
            self._tell_of_tail(0)
        elif was_led or is_new_epoch:
            self._follow()
        if is_new_epoch or was_led != is_led:
            # What waits to be part of a transaction asks anew: another leader may have got the marker that ended it.
            for verification in self.verifications.values():
                verification.refusal = verification.refusal or KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.wake()

    def _lead(self, image: PartitionImage) -> None:
        self.is_led = True
        self.log.settle_or_wait()
        self.log.assign_epoch_start(image.leader_epoch, self.log.log_end_offset)
        self.in_sync = None
        self._follow_in_sync(image)

    def _follow_in_sync(self, image: PartitionImage) -> None:
        if len(image.replicas) == 1:
            self.in_sync = None
            if self.durable_end > self.high_watermark:  # those who had not all are replicas no more
                self._advance(self.durable_end, 1)
            return
        if self.in_sync is None:
            self.in_sync = InSync(image, self._peers, epoch_start=self.log.log_end_offset)
        else:
            self.in_sync.follow(image)
        self._advance_over_in_sync()

    def _follow(self) -> None:
        self.is_led = False
        self.in_sync = None
        self._leader_high_watermark = self.high_watermark

    def wake(self) -> None:
        """Let everybody who waits look again: the partition changed or is gone."""
        for waiter in [*self._waiters, *self._tail_waiters]:
            waiter.more_data(0)
        for watcher in list(self._watchers):
            watcher.moved(0)

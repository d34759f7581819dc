"""Partition on this broker: its log, its high watermark, and the waiters that are notified when either changes.

The leader appends the batches of clients and serves them to followers. It computes the high watermark from their
fetches: the offset up to which every in-sync replica has the log (kwire.cluster.partitions.in_sync). A follower appends
the batches of its leader and adopts the leader's high watermark. Without other replicas the high watermark is the log
end offset.

If flush.messages requires a flush, records that are not durable do not count for the high watermark, and a follower
fetches again only after it has flushed. The partition stores its waiters. A delayed fetch is notified of the size of
each append or commit, and decides itself when it has enough.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.divergence import EpochEnd, truncation_offset
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.in_sync import Followers, Peers
from kwire.cluster.partitions.verification import Verification
from kwire.cluster.partitions.waiters import Waiter, Watcher
from kwire.log.append_result import AppendResult
from kwire.log.batch_validation import AppendOrigin, Validated
from kwire.log.lookup import appended_bytes
from kwire.log.partition_log import PartitionLog
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.primitives import Buffer
from kwire.protocol.records import iterate_headers

logger = logging.getLogger(__name__)
NO_EPOCH = -1
ACKS_ALL = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
_NO_WATCHERS: Final[dict[Watcher, None]] = {}  # the watchers of most partitions; never changed


class Partition:
    """State of one partition on the leader or a follower. Changed on the event loop only."""

    __slots__ = (
        "_group_commit",
        "_leader_high_watermark",
        "_log_end_waiters",
        "_peers",
        "_unflushed_bytes",
        "_waiters",
        "_watchers",
        "followers",
        "high_watermark",
        "image",
        "index",
        "is_led",
        "is_removed",
        "leader_id",
        "log",
        "on_log_durable",
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
        """Create a partition. `is_led` is True if this broker is the leader that the image names.

        `high_watermark` is the one from the last checkpoint; without other replicas the whole log is committed.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.image = image
        self.leader_id = image.leader
        self.is_led = False
        """True if this broker leads the partition: only then may clients write here."""
        self.followers: Followers | None = None
        """State of the followers, kept by the leader; None without other replicas."""
        self.is_removed = False
        """True if the topic was deleted or this broker no longer has the replica."""
        is_alone = len(image.replicas) == 1
        committed = log.log_end_offset if is_alone else min(high_watermark, log.log_end_offset)
        self.high_watermark = max(committed, log.log_start_offset)
        """First offset that consumers may not read; at most the log end offset. Only a truncation lowers it."""
        log.producers.update_high_watermark(self.high_watermark)
        self._waiters: dict[Waiter, None] = {}
        self._log_end_waiters: dict[Waiter, None] = {}
        self._watchers = _NO_WATCHERS
        self._group_commit = group_commit
        self._peers = peers
        self._unflushed_bytes = 0
        """Size of the appends that wait for a flush; a pending truncation counts as one byte."""
        self._leader_high_watermark = 0
        """High watermark that the leader sent last."""
        self.on_log_durable: Callable[[], None] | None = None
        """Callback for a follower's log that is durable to its end again: the follower may fetch again."""
        self.verifications: dict[tuple[int, int], Verification] = {}
        """Batches that wait for verification of their transaction, by producer id and epoch."""
        if is_led:
            self._lead(image)

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    def check_epoch(self, epoch: int) -> None:
        """Raise KafkaError if a client's leader epoch differs from this partition's (KIP-320)."""
        if epoch in (NO_EPOCH, self.image.leader_epoch):
            return
        older = epoch < self.image.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    # --- writing

    def append(
        self, batch: Buffer, acks: int, origin: AppendOrigin = AppendOrigin.CLIENT, validated: Validated | None = None
    ) -> AppendResult:
        """Append one batch as leader, at the log end offset. Raises KafkaError (nothing is stored), or DiskFailure."""
        log = self.log
        if acks == ACKS_ALL and len(self.image.isr) < log.config.min_insync_replicas:
            self._check_insync_replicas()
        result = log.append(batch, leader_epoch=self.image.leader_epoch, origin=origin, validated=validated)
        if not result.is_duplicate:
            self._appended(len(batch))
        return result

    def append_marker(
        self, batch: bytes, producer_id: int, producer_epoch: int, *, transaction_version: int
    ) -> AppendResult:
        """Append a marker, and reject the transaction's batches that wait for verification. Raises like `append`."""
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
            # With an epoch per transaction, the marker has the epoch of the next transaction, whose batches may wait.
            is_old = epoch < producer_epoch or (epoch == producer_epoch and transaction_version < EPOCH_PER_TRANSACTION)
            if waiting_id == producer_id and is_old:
                verification.error = KafkaError(
                    ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
                )
        self._appended(len(batch))
        return result

    def _appended(self, size: int) -> None:
        log = self.log
        if self._unflushed_bytes or log.unflushed_records >= log.config.flush_messages:
            self._unflushed_bytes += size
            self._group_commit.request(self)
            if self.followers is not None:
                self._record_append(self.followers, size)
        elif self.followers is None:
            self._advance(log.log_end_offset, size)
        else:
            self._record_append(self.followers, size)
            self._advance_over_in_sync()

    def _record_append(self, followers: Followers, size: int) -> None:
        """Record an uncommitted append, and notify delayed fetches of followers and other log end waiters."""
        followers.appended(self.log.log_end_offset, size)
        self._notify_log_end_waiters(size)

    def _notify_log_end_waiters(self, size: int) -> None:
        if self._log_end_waiters:
            for waiter in list(self._log_end_waiters):
                waiter.data_available(size)

    def _recheck_log_end_waiters(self) -> None:
        for waiter in list(self._log_end_waiters):
            waiter.state_changed()

    def _check_insync_replicas(self) -> None:
        """Raise KafkaError if too few replicas are in sync. Never requires more replicas than the partition has."""
        if not self.has_enough_in_sync:
            needed = min(self.log.config.min_insync_replicas, len(self.image.replicas))
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.image.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {needed} for partition {self.topic}-{self.index}",
            )

    @property
    def waits_for_flush(self) -> bool:
        """True if appends or a truncation wait for a flush."""
        return self._unflushed_bytes > 0

    def flushed(self) -> None:
        """React to a flush: all records below the log's recovery point are durable."""
        end = self.log.recovery_point
        size = self._unflushed_bytes
        is_settled = end == self.log.log_end_offset and self.log.pending_truncation is None
        if is_settled:
            self._unflushed_bytes = 0
        if not self.is_led:
            self._take_high_watermark(self._leader_high_watermark)
            if is_settled and self.on_log_durable is not None:
                self.on_log_durable()
        elif self.followers is not None:
            self._advance_over_in_sync()
            self._notify_log_end_waiters(1)  # for acks=1; delayed fetches counted the bytes at the append
        elif end > self.high_watermark:
            self._advance(end, size)

    @property
    def committable_end(self) -> int:
        """End offset of the records that may be committed: of the flushed ones if a flush is required, else of all."""
        return self.log.recovery_point if self._unflushed_bytes else self.log.log_end_offset

    def satisfies_acks(self, last_offset: int, acks: int) -> bool:
        """Return True if an append up to this offset is committed or, with acks=1 and followers, committable."""
        if acks == ACKS_ALL or self.followers is None:
            return self.high_watermark > last_offset
        return self.committable_end > last_offset

    def _advance_over_in_sync(self) -> None:
        """Commit what all in-sync replicas have, if there are enough of them."""
        followers = self.followers
        assert followers is not None
        if not self.has_enough_in_sync:
            return
        end = followers.committed_end(self.committable_end)
        if end > self.high_watermark:
            self._advance(end, followers.take_committed_bytes(end))

    @property
    def has_enough_in_sync(self) -> bool:
        """True if min.insync.replicas are in sync. Never requires more replicas than the partition has."""
        return len(self.image.isr) >= min(self.log.config.min_insync_replicas, len(self.image.replicas))

    def _advance(self, end: int, size: int) -> None:
        """Raise the high watermark to `end`. It commits `size` bytes; unknown is 1 from a leader, 0 from a follower."""
        assert self.high_watermark <= end <= self.log.log_end_offset, "the high watermark grows within the log"
        self.high_watermark = end
        self.log.producers.update_high_watermark(end)
        if size == 0:
            for each in [*self._waiters, *self._watchers]:
                each.state_changed()
            return
        for waiter in list(self._waiters) if self._waiters else ():
            waiter.data_available(size)
        for watcher in list(self._watchers) if self._watchers else ():
            watcher.committed(size)

    # --- followers, as their leader sees them

    def live_replicas_changed(self) -> None:
        """React to brokers that were registered, fenced or removed: the replicas that commits wait for may change."""
        if self.followers is not None:
            self._advance_over_in_sync()
            self._recheck_log_end_waiters()

    def check_replica(self, broker_id: int, epoch: int) -> Followers:
        """Return the followers. Raises KafkaError if `broker_id` is not one of them, or this broker does not lead."""
        if self.followers is None or not self.followers.is_follower(broker_id):
            # A broker that sends a leader epoch may have newer metadata than this broker.
            knows_epoch = epoch != NO_EPOCH
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.followers

    def follower_fetched(
        self, broker_id: int, *, offset: int, log_start_offset: int, broker_epoch: int, epoch: int
    ) -> None:
        """Record the fetch of a follower whose log agrees with this one up to `offset`, and ends there.

        Raises KafkaError for a non-replica, a stale broker epoch, or an offset outside of this log.
        """
        followers = self.check_replica(broker_id, epoch)
        if self._peers.is_superseded(broker_id, broker_epoch):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # the restarted broker may have lost records
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        follower = followers.follower(broker_id)
        has_moved_start = follower.log_start_offset != log_start_offset
        follower.fetched(
            offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end=self.log.log_end_offset,
            now_ms=self._peers.now_ms(),
        )
        if followers.propose_expand(broker_id, self.high_watermark):
            self._peers.send_proposal(self)
        self._advance_over_in_sync()
        if has_moved_start:
            self._recheck_log_end_waiters()

    def propose_isr_shrink(self) -> None:
        """Propose an in-sync set without the replicas that lag; they count until the metadata have the new set."""
        if self.followers is None:
            return
        if self.followers.propose_shrink(self.log.log_end_offset):
            self._peers.send_proposal(self)
        self._advance_over_in_sync()

    # --- following

    def append_as_follower(
        self, batches: bytes | bytearray | memoryview, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> None:
        """Append batches that the leader of the epoch sent for the log end offset. Raises KafkaError, DiskFailure."""
        assert not self.is_led, "a leader appends only batches of clients and coordinators"
        assert leader_epoch == self.image.leader_epoch, "batches from an earlier leader are dropped"
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
        """Start an empty log at the leader's first batch: the leader's log start offset may be inside of that batch."""
        first = next((header for _, header in iterate_headers(batches)), None)
        if first is not None and first.base_offset < self.log.log_end_offset <= first.last_offset:
            self.restart_log_at(first.base_offset)

    def _take_high_watermark(self, leader_high_watermark: int) -> None:
        self._leader_high_watermark = leader_high_watermark
        end = min(leader_high_watermark, self.committable_end)
        if end > self.high_watermark:
            self._advance(end, appended_bytes(self.log.segments, self.high_watermark, end, self.log.log_end_offset))

    def truncate_as_follower(self, leader_end: EpochEnd) -> None:
        """Truncate to where the logs diverge, given the leader's end offset for an epoch."""
        self._truncate_to(truncation_offset(self.log, leader_end))

    def truncate_to_leaders_end(self, end_offset: int) -> None:
        """Truncate to the leader's log end offset: after an unclean election it may be lower than this replica's."""
        self._truncate_to(end_offset)

    def _truncate_to(self, offset: int) -> None:
        assert not self.is_led, "a leader's log is authoritative"
        self.log.cut_to(offset)  # raises if the log is not ready yet
        if offset < self.high_watermark:
            logger.warning(
                "%s-%d is truncated to %d, below its high watermark %d: broker %d, its leader in epoch %d, lacks "
                "committed records",
                *(self.topic, self.index, offset, self.high_watermark, self.leader_id, self.leader_epoch),
            )
        self._log_truncated()
        if self.log.pending_truncation is not None:
            self._unflushed_bytes += 1  # not an append: the truncation must be flushed before the next fetch
            self._group_commit.request(self)

    def restart_log_at(self, offset: int) -> None:
        """Delete the whole log and start at an offset: the leader has nothing older."""
        assert not self.is_led, "a leader's log is authoritative"
        self.log.truncate_fully_and_start_at(offset)
        self._log_truncated()
        self.high_watermark = offset

    def _log_truncated(self) -> None:
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self.log.producers.update_high_watermark(self.high_watermark)
        if self.log.recovery_point == self.log.log_end_offset:
            self._unflushed_bytes = 0
        for watcher in list(self._watchers):
            watcher.state_changed()

    # --- reading

    def end_offset(self, isolation_level: int) -> int:
        """Return the first offset that a reader with this isolation level may not read."""
        if isolation_level == READ_COMMITTED:
            return self.log.last_stable_offset(self.high_watermark)
        return self.high_watermark

    def check_end_known(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE while the high watermark is below the start of this leader's epoch (KIP-207).

        Consumers of the previous leader may have read more than this leader knows to be committed.
        """
        if self.followers is not None and self.high_watermark < self.followers.epoch_start:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def wait(self, waiter: Waiter, *, for_log_end: bool = False) -> None:
        """Notify of commits or, with `for_log_end`, of appends, flushes, metadata and followers' log start offsets."""
        (self._log_end_waiters if for_log_end else self._waiters)[waiter] = None

    def stop_waiting(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._log_end_waiters.pop(waiter, None)

    def watch(self, watcher: Watcher) -> None:
        """Notify the watcher of everything from now on."""
        if self._watchers is _NO_WATCHERS:
            self._watchers = {}
        self._watchers[watcher] = None

    def stop_watching(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def log_start_moved(self) -> None:
        """Notify the watchers that records at the log's start were deleted."""
        for watcher in list(self._watchers):
            watcher.log_start_moved()

    # --- changes

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset to `offset`, -1 for the high watermark; return the new log start offset.

        Followers are notified at once; `low_watermark` shows when they have moved theirs.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(target)
        self.wake()
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """Lowest log start offset of the live replicas: none of them has records below it."""
        start = self.log.log_start_offset
        return start if self.followers is None else self.followers.low_watermark(start)

    def replace_log(self, log: PartitionLog) -> None:
        """Continue with a copy of the log in another directory; all its batches are durable.

        Waiters keep waiting: nothing has changed for them, except that a flush they waited for is no longer needed.
        """
        self.log = log
        log.producers.update_high_watermark(self.high_watermark)
        if self.waits_for_flush:
            self.flushed()

    def update(self, image: PartitionImage, *, is_led: bool) -> None:
        """Apply new metadata. Waiters check again if the leader epoch or the role of this broker changes."""
        is_new_epoch = image.leader_epoch != self.image.leader_epoch
        was_led = self.is_led
        self.image = image
        self.leader_id = image.leader
        if is_led and (is_new_epoch or not was_led):
            self._lead(image)
        elif is_led:
            self._update_followers(image)
            self._recheck_log_end_waiters()
        elif was_led or is_new_epoch:
            self._follow()
        if is_new_epoch or was_led != is_led:
            # Reject batches that wait for verification: their transaction's marker may be only in another leader's log.
            for verification in self.verifications.values():
                verification.error = verification.error or KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.wake()

    def _lead(self, image: PartitionImage) -> None:
        self.is_led = True
        self.log.try_complete_truncation()
        self.log.assign_epoch_start(image.leader_epoch, self.log.log_end_offset)
        self.followers = None
        self._update_followers(image)

    def _update_followers(self, image: PartitionImage) -> None:
        if len(image.replicas) == 1:
            self.followers = None
            if self.committable_end > self.high_watermark:  # the lagging replicas were removed
                self._advance(self.committable_end, 1)  # 1: size unknown; 0 would answer delayed fetches too early
            return
        if self.followers is None:
            self.followers = Followers(image, self._peers, epoch_start=self.log.log_end_offset)
        else:
            self.followers.update(image)
        self._advance_over_in_sync()

    def _follow(self) -> None:
        self.is_led = False
        self.followers = None
        self._leader_high_watermark = self.high_watermark

    def wake(self) -> None:
        """Make all waiters check again: the partition has changed or was removed."""
        for each in [*self._waiters, *self._log_end_waiters, *self._watchers]:
            each.state_changed()

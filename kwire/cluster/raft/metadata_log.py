"""The metadata log as controllers and brokers use it: the images that result from it, and writing it as the leader.

    leader    append -> newest image;  committed by the quorum -> image, publisher, answers
    others                             committed by the quorum -> replay -> image, publisher

`append` writes a batch and applies it to the newest image at once; `committed` waits until a majority has it durable.
Only then does the committed image advance, and the publisher makes each change take effect, in order. After a crash the
whole batch is in the log or nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kwire.chunks import Pieces, step_line
from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata.features import METADATA_VERSION
from kwire.cluster.metadata.image import MetadataImage, UnknownRecord
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.metadata.prepared_records import PreparedRecords, prepare
from kwire.cluster.metadata.replay import Replay
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.ready import Leadership
from kwire.cluster.raft.raft_log import BATCH_BYTES_MAX
from kwire.cluster.raft.raft_node import READ_BYTES, RaftNode
from kwire.cluster.raft.snapshots import Snapshot
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

logger = logging.getLogger(__name__)

METADATA_TOPIC_ID = UUID(int=1)

CHECK_SECONDS: Final = 0.05
UNREADABLE = (UnknownRecord, ProtocolError, ValueError)
"""Errors for a log or snapshot that this version cannot read."""


class MetadataPublisher:
    """Receiver of committed changes, which makes them take effect. A subclass overrides the methods that it needs."""

    def publish(self, delta: MetadataDelta) -> None:
        """Called with each committed change, in order; one call covers all batches committed together."""

    def controller_changed(self) -> None:
        """Called when the leader of the metadata log changes, also to none, and when this node becomes active."""


class Written(NamedTuple):
    """Position of a record: its offset, and the epoch of the leader that wrote it. The leader of another epoch may
    write another record at the same offset.
    """

    offset: int
    epoch: int


class MetadataLog:
    """Owner of the newest and the committed image."""

    def __init__(self, node: RaftNode, *, node_id: int, bootstrap: Sequence[Any]) -> None:
        """Create the log. `bootstrap` are the first records of a new cluster, if this node is its first leader."""
        self._node = node
        self._node_id = node_id
        self._bootstrap = bootstrap
        self._first_image = MetadataImage().apply(bootstrap, offset=0, epoch=0)
        self._replay = Replay()
        self._applied_to = 0
        """End offset of the committed image."""
        self._committed_end = 0
        """End offset of what the quorum has committed."""
        self._replaying: Pieces[None] | None = None
        """Running replay, on a node that is not the leader."""
        self._uncommitted: deque[MetadataImage] = deque()
        """Uncommitted images on the leader: at most one for the running flush and one for the next.

        An append replaces the image of an earlier one that waits for the same flush: fewer images need fewer copies.
        """
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._publisher = MetadataPublisher()
        self._awaited: dict[asyncio.Future[None], Callable[[MetadataImage], bool]] = {}
        """Futures for conditions of the committed image that callers of `reached` wait for."""
        self._active_epoch: int | None = None
        """Epoch in which this node leads and may write."""
        self._led_epoch: int | None = None
        """Epoch in which the quorum has elected this node. It is active when all committed records are replayed."""
        self.newest_image = MetadataImage()
        """Image with uncommitted records; on a node that does not lead, the committed image."""
        self.image = MetadataImage()
        """Committed image: the state that brokers and clients may see."""
        self.failed = node.failed
        """Future with the error after which the log cannot be written or read any more: the node must stop."""
        self.failed.add_done_callback(self._fail_waiters)
        node.set_listener(self)

    @property
    def node(self) -> RaftNode:
        """Raft node that keeps the log."""
        return self._node

    @property
    def image_for_logins(self) -> MetadataImage:
        """Committed image; before there is one, that of a new cluster's first records.

        Nodes that log in by SCRAM need credentials before they can elect a leader.
        """
        return self.image if METADATA_VERSION in self.image.features else self._first_image

    @property
    def epoch(self) -> int:
        return self._node.quorum.epoch

    @property
    def high_watermark(self) -> int:
        """High watermark: the end offset of the committed records."""
        return max(self._node.quorum.high_watermark, 0)

    @property
    def applied_offset(self) -> int:
        """Offset of the last applied record, including control records, which do not change the image."""
        return self._applied_to - 1

    @property
    def next_offset(self) -> int:
        return self._node.log.end_offset

    @property
    def is_active(self) -> bool:
        """True if this node leads and may write."""
        return self._active_epoch is not None

    @property
    def is_in_transaction(self) -> bool:
        """True if records may be held back until their metadata transaction ends: no snapshot can cover them."""
        return self._replaying is not None or self._replay.is_in_transaction

    @property
    def written(self) -> Written:
        """Position of the last record in the log, written by this leader or before it."""
        return Written(self.next_offset - 1, self.epoch)

    def publish_to(self, publisher: MetadataPublisher) -> None:
        """Call this publisher, in place of the one before, with every committed change from now on."""
        self._publisher = publisher

    async def reached(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Return when the condition holds, checked at each commit and change of leaders. Raises the log's failure."""
        if holds(self.image):
            return
        if self.failed.done():
            raise self.failure
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited[reached] = holds
        try:
            await reached
        except UNREADABLE as error:
            raise self.failure from error
        finally:
            del self._awaited[reached]

    async def caught_up(self) -> None:
        """Return when the image contains all records that the leader reports as committed. Raises the log's failure.

        Polls, because there is no notification if the leader has committed nothing new.
        """
        while not self._is_caught_up(self.image):
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self.reached(self._is_caught_up)

    def _is_caught_up(self, image: MetadataImage) -> bool:
        return image.offset >= 0 and 0 <= self._node.quorum.leaders_high_watermark <= self._applied_to

    @property
    def failure(self) -> BaseException:
        """Return the log's failure as an error for a component that cannot start because of it."""
        error = self.failed.result()
        return self._rejection(error) if isinstance(error, UNREADABLE) else error

    # --- start and stop

    def start(self) -> None:
        """Load the newest snapshot and join the quorum."""
        self._load()
        self._node.start()

    async def close(self) -> None:
        """Wait for a running flush, and close the files."""
        await self._node.close()

    def _load(self) -> None:
        """Load the newest snapshot. Records after it are replayed only when the quorum reports them as committed."""
        latest = self._node.log.latest_snapshot_id
        if latest is None or latest.offset == 0:
            return
        try:
            self._take_snapshot(latest, self._node.log.load_snapshot(latest))
        except UNREADABLE as error:
            raise self._rejection(error) from error

    def _rejection(self, error: Exception) -> DirectoryRejected:
        return DirectoryRejected(
            f"log.dirs: the metadata log cannot be read ({error}); start the version that wrote it"
        )

    # --- writing

    def append(self, records: Sequence[Any] | PreparedRecords, *, bytes_max: int = BATCH_BYTES_MAX) -> Written:
        """Write one batch and apply it to the newest image; return the position of the last record, for `committed`.

        Large batches should be prepared before, so that this call is short.

        Raises KafkaError: NOT_CONTROLLER if this node is not, or no longer, the leader; KAFKA_STORAGE_ERROR if the disk
        is full; INVALID_REQUEST or POLICY_VIOLATION for records that cannot be written. Raises DiskFailure for any
        other failure: the node must stop then.
        """
        if self._active_epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        prepared = records if isinstance(records, PreparedRecords) else prepare(records, self.newest_image.features)
        written = Written(self.next_offset + prepared.count - 1, self._active_epoch)
        image = self.newest_image.apply(prepared.changes, offset=written.offset, epoch=written.epoch)
        offset = self._node.append(prepared, bytes_max=bytes_max)
        if self._active_epoch != written.epoch:  # the node has just lost leadership
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        assert offset == written.offset, "only the leader writes the log"
        self.newest_image = image
        if self._uncommitted and self._uncommitted[-1].offset >= self._node.flushing_to:
            self._uncommitted.pop()
        self._uncommitted.append(image)
        return written

    async def committed(self, written: Written) -> None:
        """Return when a record is committed and applied to the committed image.

        Raises KafkaError NOT_CONTROLLER if this node no longer leads in the record's epoch: the record may still be
        committed, or lost.
        """
        if self.failed.done():
            raise self.failed.result()
        if self._active_epoch != written.epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if written.offset < self._applied_to:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((written.offset, waiter))
        await waiter

    # --- notifications from the quorum: kwire.cluster.raft.raft_node.Listener

    def committed_to(self, end_offset: int) -> None:
        """Process a new high watermark: all records below end_offset are committed and in the log."""
        self._committed_end = end_offset
        if self.is_active:
            self._publish(self._own_image(end_offset))
        elif self._replaying is None:
            self._replaying = self._replayed()
            self._replay_on(self._replaying)

    def quorum_leader_changed(self, leadership: Leadership) -> None:
        """Become active when this node leads and all earlier records are replayed, or give up leadership."""
        is_mine = leadership.leader_id == self._node_id and leadership.is_established
        self._led_epoch = leadership.epoch if is_mine else None
        self._follow_leadership()

    def replaced(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """Load a snapshot that has replaced the log."""
        assert not self.is_active, "a leader never loads a snapshot"
        self._replaying = None  # the snapshot contains what the replay has read of the log
        old = self.image
        self._take_snapshot(snapshot_id, snapshot)
        self._publish_delta(old, self.image)

    def _publish(self, image: MetadataImage) -> None:
        """Make this the committed image, and notify the publisher and waiters."""
        old, self.image = self.image, image
        if not self.is_active:
            self.newest_image = image
        if image is not old:
            self._publish_delta(old, image)
        while self._waiters and self._waiters[0][0] < self._applied_to:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _follow_leadership(self) -> None:
        epoch = self._led_epoch if self._replaying is None else None
        if epoch != self._active_epoch:
            if self._active_epoch is not None:
                self._step_down()
            if epoch is not None:
                with self._node.away_if_disk_full:
                    self._activate(epoch)
        self._publisher.controller_changed()
        self._check_awaited()

    def _replay_on(self, replaying: Pieces[None]) -> None:
        """Run the next step of a replay, and schedule the following one in a later turn of the event loop."""
        if replaying is not self._replaying:  # a snapshot has replaced the log meanwhile
            return
        try:
            next(replaying)
        except StopIteration:
            self._replaying = None
            if self._led_epoch is not None:
                self._follow_leadership()
        else:
            step = partial(self._node.continue_notification, partial(self._replay_on, replaying))
            step_line().add(step, is_preferred=True)

    def _replayed(self) -> Pieces[None]:
        """Replay all committed records, including those that are committed meanwhile."""
        while self._applied_to < self._committed_end:
            position, end = self._applied_to, self._committed_end
            while position < end:
                data = self._node.log.read(position, READ_BYTES, limit_offset=end)
                position = yield from self._replay.feed(data, begin=position, end=end)
            self._applied_to = position
            self._publish(self._replay.image)

    def _publish_delta(self, old: MetadataImage, new: MetadataImage) -> None:
        self._publisher.publish(MetadataDelta(old, new))
        self._check_awaited()

    def _check_awaited(self) -> None:
        for reached, holds in self._awaited.items():
            if not reached.done() and holds(self.image):
                reached.set_result(None)

    def _own_image(self, end_offset: int) -> MetadataImage:
        image = self.image
        while self._uncommitted and self._uncommitted[0].offset < end_offset:
            image = self._uncommitted.popleft()
        # An image may cover several batches. Until all of them are committed, it is not applied.
        self._applied_to = image.offset + 1 if self._uncommitted else end_offset
        return image

    def _take_snapshot(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        offset, epoch = snapshot_id
        image = MetadataImage().apply(snapshot.records, offset=offset - 1, epoch=epoch)
        self._replay.restart(image)
        self.image = self.newest_image = image
        self._applied_to = offset

    def _activate(self, epoch: int) -> None:
        """Become active.

        All records are committed, except this epoch's first control records, which do not change the image.
        """
        self._active_epoch = epoch
        self.newest_image = self.image
        if self._replay.is_in_transaction:
            self._replay.restart(self.image)
            self.append([AbortTransactionRecord(reason="the controller that began it is no longer active")])
        if METADATA_VERSION not in self.image.features:
            # A crash may have come before these records, or between them, in an earlier epoch.
            self.append([BeginTransactionRecord(name="Bootstrap records"), *self._bootstrap, EndTransactionRecord()])

    def _step_down(self) -> None:
        self._active_epoch = None
        self._uncommitted.clear()
        self.newest_image = self.image
        self._replay.restart(self.image)
        self._applied_to = self.image.offset + 1  # control records after it are read again
        waiters, self._waiters = self._waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))

    def _fail_waiters(self, failed: asyncio.Future[BaseException]) -> None:
        waiters = [*self._awaited, *(waiter for _, waiter in self._waiters)]
        self._waiters.clear()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(failed.result())

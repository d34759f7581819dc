"""The metadata log as controllers and brokers use it: images that follow from it, and the leader's way to write it.

    leader    append -> newest image;  committed by the quorum -> image, watchers, answers
    others                             committed by the quorum -> replay -> image, watchers

append writes a batch and applies it to the newest image at once; committed waits until a majority has it durable. Only
then is the committed image moved on and are its watchers told, in order. After a crash a batch is there whole or
not at all.
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
from kwire.cluster.directory import DirectoryRefused
from kwire.cluster.features import METADATA_VERSION
from kwire.cluster.image import MetadataImage, UnknownRecord
from kwire.cluster.prepared_records import PreparedRecords, prepare
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.ready import Leadership
from kwire.cluster.raft_log import BATCH_BYTES_MAX
from kwire.cluster.raft_node import READ_BYTES, RaftNode
from kwire.cluster.replay import Replay
from kwire.cluster.snapshots import Snapshot
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

logger = logging.getLogger(__name__)

METADATA_TOPIC_ID = UUID(int=1)

LOOK_SECONDS: Final = 0.05
UNREADABLE = (UnknownRecord, ProtocolError, ValueError)
"""A log or snapshot that this version cannot read, or nobody."""

Watcher = Callable[[MetadataImage, MetadataImage], None]
"""Told of (old image, new image) when changes are committed: all that became so together."""


class Written(NamedTuple):
    """A record's place: its offset, and the epoch of the leader that wrote it. In another epoch there may stand another
    record at the same offset.
    """

    offset: int
    epoch: int


class MetadataLog:
    """Owns the newest and the committed image."""

    def __init__(self, node: RaftNode, *, node_id: int, bootstrap: Sequence[Any]) -> None:
        """`bootstrap` are the records that a new cluster begins with, should this node be its first leader."""
        self._node = node
        self._node_id = node_id
        self._bootstrap = bootstrap
        self._replay = Replay()
        self._applied_to = 0
        """The end of what the committed image stands for."""
        self._committed_end = 0
        """The end of what the quorum has committed."""
        self._replaying: Pieces[None] | None = None
        """Not as the leader: the replay that goes on."""
        self._uncommitted: deque[MetadataImage] = deque()
        """As the leader: the images to be committed, at most one that is being flushed and one for the next flush, so
        that not every append costs a copy of what it changes."""
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._watchers: list[Watcher] = []
        self._leader_watchers: list[Callable[[], None]] = []
        self._awaited: dict[asyncio.Future[None], Callable[[MetadataImage], bool]] = {}
        """What somebody waits for the committed image to be."""
        self._active_epoch: int | None = None
        """The epoch in which this node leads and may write."""
        self._led_epoch: int | None = None
        """The epoch in which the quorum says that this node leads: active it is when it has replayed what is committed.
        """
        self.newest_image = MetadataImage()
        """With what is not committed yet; the committed image on a node that does not lead."""
        self.image = MetadataImage()
        """The committed image: what brokers and clients may know."""
        self.failed = node.failed
        """Resolved when the log can no longer be written, or not be read: the node must stop."""
        self.failed.add_done_callback(self._fail_waiters)
        node.follow(self)

    @property
    def node(self) -> RaftNode:
        """The quorum's node that the log is kept by."""
        return self._node

    @property
    def epoch(self) -> int:
        return self._node.quorum.epoch

    @property
    def high_watermark(self) -> int:
        """The end of what is committed."""
        return max(self._node.quorum.high_watermark, 0)

    @property
    def applied_offset(self) -> int:
        """The last offset that the committed image stands for, records without state among them."""
        return self._applied_to - 1

    @property
    def next_offset(self) -> int:
        return self._node.log.end_offset

    @property
    def is_active(self) -> bool:
        """Whether this node leads and may write."""
        return self._active_epoch is not None

    @property
    def is_in_transaction(self) -> bool:
        """Whether records may be held back until their metadata transaction ends: no snapshot stands for them."""
        return self._replaying is not None or self._replay.is_in_transaction

    @property
    def written(self) -> Written:
        """The last of what this node has written as the leader of this epoch, or of what came before."""
        return Written(self.next_offset - 1, self.epoch)

    def watch(self, watcher: Watcher) -> None:
        """Tell the watcher of every committed change from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Call the watcher no more."""
        self._watchers.remove(watcher)

    def watch_leader(self, watcher: Callable[[], None]) -> None:
        """Call the watcher whenever somebody else, or nobody, is known to lead."""
        self._leader_watchers.append(watcher)

    async def reached(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Return when this holds; looked at after every commit and change of leaders. Raises what ends the log."""
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
        """Return when the image stands for all that a leader says is committed. Raises what ends the log.

        Polls, as no change is reported when the leader has committed nothing new.
        """
        while not self._is_caught_up(self.image):
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.reached(self._is_caught_up)

    def _is_caught_up(self, image: MetadataImage) -> bool:
        return image.offset >= 0 and 0 <= self._node.quorum.leaders_high_watermark <= self._applied_to

    @property
    def failure(self) -> BaseException:
        """Why the log has failed, for whoever cannot start because of it."""
        error = self.failed.result()
        return self._refusal(error) if isinstance(error, UNREADABLE) else error

    # --- life

    def start(self) -> None:
        """Take part in the quorum."""
        self._load()
        self._node.start()

    async def close(self) -> None:
        """Wait for what is being flushed, and give the files back."""
        await self._node.close()

    def _load(self) -> None:
        """Begin with the newest snapshot; the log behind it counts as far as the quorum says that it is committed."""
        latest = self._node.log.latest_snapshot_id
        if latest is None or latest.offset == 0:
            return
        try:
            self._take_snapshot(latest, self._node.log.load_snapshot(latest))
        except UNREADABLE as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> DirectoryRefused:
        return DirectoryRefused(f"log.dirs: the metadata log cannot be read ({error}); use what wrote it")

    # --- writing

    def append(self, records: Sequence[Any] | PreparedRecords, *, bytes_max: int = BATCH_BYTES_MAX) -> Written:
        """Write one batch and apply it to the newest image; the last record's place, for `committed`.

        Many records are prepared before, so that this takes short.

        Raises KafkaError: NOT_CONTROLLER when this node does not lead (any more), KAFKA_STORAGE_ERROR when the disk is
        full, INVALID_REQUEST or POLICY_VIOLATION for what cannot be written; DiskFailure for any other failure: the
        node must stop then.
        """
        if self._active_epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        prepared = records if isinstance(records, PreparedRecords) else prepare(records, self.newest_image.features)
        written = Written(self.next_offset + prepared.count - 1, self._active_epoch)
        image = self.newest_image.apply(prepared.changes, offset=written.offset, epoch=written.epoch)
        offset = self._node.append(prepared, bytes_max=bytes_max)
        if self._active_epoch != written.epoch:  # the quorum has found just now that this node leads no more
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        assert offset == written.offset, "the leader alone writes the log"
        self.newest_image = image
        if self._uncommitted and self._uncommitted[-1].offset >= self._node.flushing_to:
            self._uncommitted.pop()
        self._uncommitted.append(image)
        return written

    async def committed(self, written: Written) -> None:
        """Return when a record is committed, and applied to the committed image.

        Raises KafkaError NOT_CONTROLLER when this node leads no more in the record's epoch: it may yet be committed, or
        lost.
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

    # --- what the quorum tells: kwire.cluster.raft_node.Listener

    def committed_to(self, end_offset: int) -> None:
        """All below end_offset is committed, and in the log."""
        self._committed_end = end_offset
        if self.is_active:
            self._publish(self._own_image(end_offset))
        elif self._replaying is None:
            self._replaying = self._replayed()
            self._replay_on(self._replaying)

    def leadership_changed(self, leadership: Leadership) -> None:
        """Become active when this node leads and all that came before it is committed and replayed; or give way."""
        is_mine = leadership.leader_id == self._node_id and leadership.is_established
        self._led_epoch = leadership.epoch if is_mine else None
        self._follow_leadership()

    def replaced(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """A snapshot has taken the place of the log."""
        assert not self.is_active, "a leader never loads a snapshot"
        self._replaying = None  # what it has read of the log is in the snapshot
        old = self.image
        self._take_snapshot(snapshot_id, snapshot)
        self._tell(old, self.image)

    def _publish(self, image: MetadataImage) -> None:
        """Make this the committed image, and tell who waits for it."""
        old, self.image = self.image, image
        if not self.is_active:
            self.newest_image = image
        if image is not old:
            self._tell(old, image)
        while self._waiters and self._waiters[0][0] < self._applied_to:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _follow_leadership(self) -> None:
        epoch = self._led_epoch if self._replaying is None else None
        if epoch != self._active_epoch:
            if self._active_epoch is not None:
                self._give_way()
            if epoch is not None:
                with self._node.in_need_of_space:
                    self._activate(epoch)
        for watcher in self._leader_watchers:
            watcher()
        self._look()

    def _replay_on(self, replaying: Pieces[None]) -> None:
        """Do the next step; the one after it is done in a later turn of the event loop."""
        if replaying is not self._replaying:  # a snapshot has come meanwhile
            return
        try:
            next(replaying)
        except StopIteration:
            self._replaying = None
            if self._led_epoch is not None:
                self._follow_leadership()
        else:
            step = partial(self._node.go_on, partial(self._replay_on, replaying))
            step_line().add(step, is_preferred=True)

    def _replayed(self) -> Pieces[None]:
        """Replay all that is committed, also what is committed meanwhile."""
        while self._applied_to < self._committed_end:
            position, end = self._applied_to, self._committed_end
            while position < end:
                data = self._node.log.read(position, READ_BYTES, limit_offset=end)
                position = yield from self._replay.feed(data, begin=position, end=end)
            self._applied_to = position
            self._publish(self._replay.image)

    def _tell(self, old: MetadataImage, new: MetadataImage) -> None:
        for watcher in self._watchers:
            watcher(old, new)
        self._look()

    def _look(self) -> None:
        for reached, holds in self._awaited.items():
            if not reached.done() and holds(self.image):
                reached.set_result(None)

    def _own_image(self, end_offset: int) -> MetadataImage:
        image = self.image
        while self._uncommitted and self._uncommitted[0].offset < end_offset:
            image = self._uncommitted.popleft()
        # An image may stand for several batches. Until it is committed, what it adds is not applied.
        self._applied_to = image.offset + 1 if self._uncommitted else end_offset
        return image

    def _take_snapshot(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        offset, epoch = snapshot_id
        image = MetadataImage().apply(snapshot.records, offset=offset - 1, epoch=epoch)
        self._replay.restart(image)
        self.image = self.newest_image = image
        self._applied_to = offset

    def _activate(self, epoch: int) -> None:
        """All in the log is committed but what this epoch's leader wrote first of all, which has no state."""
        self._active_epoch = epoch
        self.newest_image = self.image
        if self._replay.is_in_transaction:
            self._replay.restart(self.image)
            self.append([AbortTransactionRecord(reason="the leader that began it leads no more")])
        if METADATA_VERSION not in self.image.features:
            # A crash may have come between an earlier epoch's first batch and these records, or amidst them.
            self.append([BeginTransactionRecord(name="Bootstrap records"), *self._bootstrap, EndTransactionRecord()])

    def _give_way(self) -> None:
        self._active_epoch = None
        self._uncommitted.clear()
        self.newest_image = self.image
        self._replay.restart(self.image)
        self._applied_to = self.image.offset + 1  # control records behind it are read again: they have no state
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

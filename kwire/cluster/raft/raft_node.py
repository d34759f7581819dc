"""Node of the metadata quorum: drives the pure quorum state machine with a log, a clock, workers and a network.

    requests, answers, time  ->  Quorum  ->  Ready  ->  quorum-state, log, snapshots  ->  answers, requests

kwire/cluster/quorum/README.md has the contract. One listener is notified of commits and changes of leaders, in order.
Flushes run on a worker, one at a time; everything else runs on the event loop.

A node leaves the quorum for a time (`is_away`) if its disk has no space for one of these: its epoch, its vote, its
first record as the leader, a truncation, or a snapshot from the leader. It rejoins when there is space, and begins with
its stored state, as after a crash. A flush without space waits, and the node stays in the quorum.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

from kwire.cluster.channel import Channel, Unreachable
from kwire.cluster.metadata.prepared_records import PreparedRecords
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.machine import Quorum
from kwire.cluster.quorum.ready import Answer, Leadership, LogRead, Ready, Send
from kwire.cluster.quorum.state import NO_NODE, load_quorum_state, store_quorum_state
from kwire.cluster.quorum.version_upgrade import UpgradeOutcome
from kwire.cluster.quorum.voter_history import QuorumRecord, quorum_records
from kwire.cluster.quorum.voters import VoterSet
from kwire.cluster.raft.raft_log import BATCH_BYTES_MAX, RaftLog
from kwire.cluster.raft.snapshots import Snapshot
from kwire.log.disk import Disk, DiskFullError
from kwire.log.flushing import FlushJob
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.protocol.records import iterate_headers
from kwire.seams import Clock, RandomSource, Workers

logger = logging.getLogger(__name__)

READ_BYTES = 1024 * 1024
TIMER_LEAST_MS = 0.1
"""Minimum timer delay: a deadline that rounding has moved before the current time must not make a busy loop."""
AWAY_SECONDS = 1.0
"""Delay before a node without space checks again."""
QUORUM_RECORDS = (ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS)


class _NoSpaceError(Exception):
    """State that the quorum must remember could not be stored; no other node has received it."""


@contextmanager
def _away_if_disk_full(log: RaftLog) -> Iterator[None]:
    """Convert a full disk to _NoSpaceError, after which the node is away from the quorum until there is space."""
    try:
        yield
    except DiskFullError as full:
        raise _NoSpaceError(str(full)) from full
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or log.is_offline:
            raise
        raise _NoSpaceError(str(error)) from error


class Listener(Protocol):
    """Consumer of the log's events. Called on the event loop, in order; must not block."""

    def committed_to(self, end_offset: int) -> None:
        """Process a new high watermark: all records below end_offset are committed and in the log."""

    def quorum_leader_changed(self, leadership: Leadership) -> None:
        """Process a change of the leader that this node knows."""

    def replaced(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """Process a snapshot that has replaced the log."""


class RaftNode:
    """Owner of the quorum and its log. Create it, then call `set_listener`, `start`, and finally `close`."""

    def __init__(
        self,
        config: QuorumConfig,
        *,
        log: RaftLog,
        directory: str,
        disk: Disk,
        clock: Clock,
        random_source: RandomSource,
        workers: Workers,
        channel: Channel,
        static_voters: VoterSet | None = None,
    ) -> None:
        """Create the node. `directory` is that of __cluster_metadata-0, with quorum-state in it. The log must be open.

        Raises DirectoryRejected for a quorum-state that cannot be read.
        """
        self.log = log
        self._directory = directory
        self._disk = disk
        self._clock = clock
        self.workers = workers
        """Workers that write to files."""
        self._channel = channel
        self._config = config
        self._random_source = random_source
        self._static_voters = static_voters
        self._quorum = self._stored_quorum()
        self.is_away = False
        """True if the node is away from the quorum and waits for disk space."""
        self.lacks_space = False
        """True after a lack of space was logged, until the node has flushed or has a leader that it can follow."""
        self._is_leaving = False
        self._listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._sends: set[asyncio.Task[None]] = set()
        self._changes: set[asyncio.Future[Any]] = set()
        """Changes of the quorum's voters and version that administrators wait for until they are committed."""
        self._is_pumping = False
        self._is_closed = False
        self._ended = asyncio.Event()
        self.flushing_to = 0
        """Log end offset when the last flush began."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Future with the error after which this node cannot keep its promises: the process must stop."""

    def _stored_quorum(self) -> Quorum:
        """Return the quorum as a start creates it from the disk."""
        return Quorum(
            config=self._config,
            state=load_quorum_state(self._disk, self._directory),
            log=self.log,
            random_source=self._random_source,
            static_voters=self._static_voters,
            records=self._stored_quorum_records(),
        )

    @property
    def quorum(self) -> Quorum:
        """Current quorum, for inspection; replaced after each lack of space."""
        return self._quorum

    def set_listener(self, listener: Listener) -> None:
        """Set the listener; once, before `start`."""
        assert self._listener is None
        self._listener = listener

    # --- start and stop

    def start(self) -> None:
        """Join the quorum, also after a lack of space."""
        self.is_away = False
        self._quorum.set_wall_offset(self._clock.wall_ms() - self._now)
        self._quorum.start(self._now)
        self._pump()

    async def shut_down(self, timeout_ms: float) -> None:
        """Shut down gracefully: a leader first lets the other voters elect a new leader, for at most the timeout."""
        if self.is_away:
            return
        self._is_leaving = True
        self._quorum.shut_down(self._now, timeout_ms)
        self._pump()
        if not self._ended.is_set() and not self.failed.done():
            await self._ended.wait()

    async def close(self) -> None:
        """Leave the quorum, wait for a running flush, and close the files."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._sends:
            task.cancel()
        if self._flusher is not None:
            await asyncio.wait([self._flusher])
        self.log.close()

    # --- inputs

    def request(self, message: Any, *, version: int, listener: str) -> asyncio.Future[Any]:
        """Return the response to a request from another node or a client; there is none if the node is away or closed.

        A request to change voters fails with NOT_CONTROLLER if this node is away from the quorum meanwhile: its outcome
        is then unknown.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not (self.is_away or self._is_closed):
            if isinstance(message, (AddRaftVoterRequest, RemoveRaftVoterRequest)):
                self._note_change(answer)
            self._quorum.request(answer, message, version=version, listener=listener, now_ms=self._now)
            self._pump()
        return answer

    def append(self, prepared: PreparedRecords, *, bytes_max: int = BATCH_BYTES_MAX) -> int:
        """Write one batch as the leader; return the last record's offset. The listener is notified of its commit.

        Raises KafkaError NOT_CONTROLLER if this node does not lead, or resigns because its disk is full and others can
        lead. Raises KAFKA_STORAGE_ERROR if the disk is full and no other voter can lead; see RaftLog.append for other
        errors.
        """
        if self.is_away or not self._quorum.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        try:
            self.log.append(prepared, self._quorum.epoch, bytes_max=bytes_max)
        except KafkaError as error:
            is_storage = error.code is ErrorCode.KAFKA_STORAGE_ERROR
            if is_storage and not self._is_pumping and self._quorum.has_possible_successor(self._now):
                self.resign(self._quorum.epoch)
                raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
            raise
        except Exception as error:
            self._fail(error)
            raise
        end = self.log.end_offset
        self._quorum.appended(self._now)
        self._pump()
        return end - 1

    def upgrade_kraft_version(self, version: int, *, validate_only: bool) -> asyncio.Future[UpgradeOutcome]:
        """Raise the level of the feature kraft.version, as the leader; return the outcome.

        The future raises KafkaError NOT_CONTROLLER if this node is away from the quorum meanwhile.
        """
        answer: asyncio.Future[UpgradeOutcome] = asyncio.get_running_loop().create_future()
        self._note_change(answer)
        self._quorum.upgrade_kraft_version(answer, version, validate_only=validate_only, now_ms=self._now)
        self._pump()
        return answer

    def _note_change(self, answer: asyncio.Future[Any]) -> None:
        self._changes.add(answer)
        answer.add_done_callback(self._changes.discard)

    def resign(self, epoch: int) -> None:
        """Resign as the leader, if this epoch is still the current one."""
        self._quorum.resign(epoch, self._now)
        self._pump()

    @property
    def metadata_age_ms(self) -> float:
        """Time since a leader last answered this node, which then had all committed records; inf if none ever did."""
        return 0.0 if self._quorum.is_leader else self._now - self._quorum.last_leader_response_ms

    @property
    def _now(self) -> float:
        return self._clock.monotonic_ms()

    # --- carrying out the quorum's output

    def _pump(self) -> None:
        """Carry out all pending output of the quorum."""
        if self._is_pumping or self.is_away or not self._is_done(self._carry_out_all):
            return
        if self._quorum.is_shut_down:
            self._ended.set()
        if self.lacks_space and self._quorum.follows_live_leader:
            self.lacks_space = False
        self._flush_soon()
        self._await_deadline()

    @property
    def away_if_disk_full(self) -> AbstractContextManager[None]:
        """Context for the first writes of a new leader: on a full disk it leaves the quorum for a time."""
        return _away_if_disk_full(self.log)

    def continue_notification(self, step: Callable[[], None]) -> None:
        """Run a later part of a notification: an error in it stops this node, or takes it out of the quorum."""
        if self._is_done(step):
            self._pump()

    def _is_done(self, step: Callable[[], None]) -> bool:
        """Run a step; return False if the node has stopped, or if the step stops it or takes it out of the quorum."""
        if self._is_closed or self.failed.done():
            return False
        self._is_pumping = True
        try:
            step()
        except _NoSpaceError as error:
            self._go_away(error)
            return False
        except Exception as error:  # noqa: BLE001 after any error the quorum's promises cannot be kept
            self._fail(error)
            return False
        finally:
            self._is_pumping = False
        return True

    def _carry_out_all(self) -> None:
        while (ready := self._quorum.take()) is not None:
            self._carry_out(ready)

    def _carry_out(self, ready: Ready) -> None:
        log = self.log
        if ready.store is not None:
            with _away_if_disk_full(log):
                log.begin_epoch(ready.store.leader_epoch)
                store_quorum_state(self._disk, self._directory, ready.store)
        if ready.truncate_to is not None:
            with _away_if_disk_full(log):
                log.truncate_to(ready.truncate_to)
        with _away_if_disk_full(log):
            control_offsets = [log.append_control(batch.records, batch.epoch) for batch in ready.append_control]
        if ready.append_records is not None:
            log.append_fetched(ready.append_records)
        snapshot_records = self._take_chunk(ready)
        listener = self._listener
        if listener is not None and ready.high_watermark is not None and ready.high_watermark > 0:
            listener.committed_to(ready.high_watermark)
        if listener is not None and ready.leadership is not None:
            listener.quorum_leader_changed(ready.leadership)
        for answer in ready.answers:
            self._answer(answer)
        for send in ready.sends:
            task = asyncio.get_running_loop().create_task(self._send(send))
            self._sends.add(task)
            task.add_done_callback(self._sends.discard)
        self._quorum.done(self._now, control_offsets=control_offsets, snapshot_records=snapshot_records)

    def _go_away(self, error: _NoSpaceError) -> None:
        """Send and receive nothing until there is space: the other nodes continue as if this node had stopped."""
        self._log_lack_of_space("is away from the quorum", error)
        self.is_away = True
        for task in self._sends:
            task.cancel()
        for change in self._changes:
            if not change.done():
                change.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
        if self._listener is not None:
            self._listener.quorum_leader_changed(Leadership(self._quorum.epoch, NO_NODE, is_established=False))
        if self._is_leaving:
            self._ended.set()
        self._set_timer(AWAY_SECONDS, self._come_back)

    def _log_lack_of_space(self, what: str, error: Exception) -> None:
        if not self.lacks_space:
            self.lacks_space = True
            logger.error("node %d %s until its disk has space: %s", self._config.node_id, what, error)

    def _come_back(self) -> None:
        try:
            self._quorum = self._stored_quorum()
        except Exception as error:  # noqa: BLE001 as at start
            self._fail(error)
            return
        self.start()

    def _take_chunk(self, ready: Ready) -> list[QuorumRecord] | None:
        """Write a part of a fetched snapshot; after the last part return its quorum records, None if it is invalid."""
        chunk = ready.snapshot_chunk
        if chunk is None:
            return None
        with _away_if_disk_full(self.log):
            self.log.append_fetched_chunk(chunk.snapshot_id, chunk.position, chunk.data)
            snapshot = self.log.install_fetched(chunk.snapshot_id) if chunk.is_last else None
        if snapshot is None:
            return None
        if self._listener is not None:
            self._listener.replaced(chunk.snapshot_id, snapshot)
        return [record for kind, record in snapshot.controls if kind in QUORUM_RECORDS]

    def _answer(self, answer: Answer) -> None:
        token: asyncio.Future[Any] = answer.token
        if token.done():  # the requester is gone
            return
        read = answer.read
        if isinstance(read, LogRead):
            answer.response.responses[0].partitions[0].records = self.log.read(read.offset, read.max_bytes)
        elif read is not None:
            data = self.log.read_snapshot(read.snapshot_id, read.position, read.max_bytes)
            answer.response.topics[0].partitions[0].unaligned_records = data
        token.set_result(answer.response)

    async def _send(self, send: Send) -> None:
        try:
            response = await self._channel.send(send.destination, send.request)
        except Unreachable:
            self._quorum.unreachable(send.correlation_id, self._now)
        else:
            self._quorum.response(send.correlation_id, response, self._now)
        self._pump()

    # --- time and flushes

    def _await_deadline(self) -> None:
        deadline = self._quorum.next_deadline_ms
        delay_ms = max(deadline - self._now, TIMER_LEAST_MS)
        self._set_timer(delay_ms / 1000 if deadline < math.inf else None, self._tick)

    def _set_timer(self, seconds: float | None, call: Callable[[], None]) -> None:
        """Replace the timer; None sets no new one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, call)

    def _tick(self) -> None:
        self._quorum.set_wall_offset(self._clock.wall_ms() - self._now)
        self._quorum.tick(self._now)
        self._pump()

    def _flush_soon(self) -> None:
        if self._flusher is None and self.log.end_offset > self.log.flushed_end_offset:
            self._flusher = asyncio.get_running_loop().create_task(self._flush_all())

    async def _flush_all(self) -> None:
        try:
            while self.log.end_offset > self.log.flushed_end_offset and not self._is_closed:
                await self._flush()
        except Exception as error:  # noqa: BLE001 after any error durability cannot be guaranteed
            self._fail(error)
        finally:
            self._flusher = None

    async def _flush(self) -> None:
        self.flushing_to = self.log.end_offset
        try:
            job = self.log.begin_flush()
            await self.workers.run(partial(self._make_durable, job))
            self.log.finish_flush(job)
        except DiskFullError as full:  # no space for leader epochs: nothing is confirmed, state is unchanged
            self._log_lack_of_space("cannot flush its metadata log", full)
            await asyncio.sleep(AWAY_SECONDS)
            return
        self.log.finish_noting()
        self.lacks_space = False
        if not self.is_away:
            self._quorum.flushed(self._now)
            self._pump()

    def _make_durable(self, job: FlushJob) -> None:
        """Run a worker's part of a flush."""
        job.run()
        if job.failure is None:
            self.log.note_durable(job)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
        self._ended.set()

    # --- the quorum's own records in the log

    def _stored_quorum_records(self) -> list[tuple[int, QuorumRecord]]:
        """Return the KRaftVersion and KRaftVoters records of the newest snapshot, at its last offset, and the log."""
        found: list[tuple[int, QuorumRecord]] = []
        latest = self.log.latest_snapshot_id
        offset = self.log.start_offset
        if latest is not None:
            controls = self.log.load_snapshot(latest).controls
            found += [(latest.offset - 1, record) for kind, record in controls if kind in QUORUM_RECORDS]
            offset = max(offset, latest.offset)
        while data := self.log.read(offset, READ_BYTES):
            found += quorum_records(data, begin=offset)
            offset = max(header.next_offset for _, header in iterate_headers(data))
        return found

"""Coordinator shard: a state machine, and the partition of an internal topic that stores its state.

A request creates a Write: records and an answer. The records are appended in one batch and replayed into the machine.
The answer is sent when they are committed, that is, when the high watermark has passed them. A failed append changes
nothing. An answer that depends on uncommitted writes, such as a read of their data, waits for their commit.

- LOADING -> ACTIVE: the partition's log has been replayed.
- LOADING -> CLOSED: the log could not be read, or this broker no longer leads the partition.
- ACTIVE -> CLOSED: this broker no longer leads the partition, or stops.
- ACTIVE -> CLOSED: the log failed while writes waited for their commit.
- ACTIVE -> CLOSED: an invariant of the machine is broken; the runtime loads a new shard in its place.

A broken invariant never spreads beyond the shard (docs/decisions/0013). Code that uses the machine runs inside
`with shard:`, which raises COORDINATOR_LOAD_IN_PROGRESS, a retriable error, for a broken invariant.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from kwire.cluster.partitions.partition import ACKS_ALL, Partition
from kwire.coordinator.errors import coordinator_error
from kwire.coordinator.markers import TransactionMarker, append_marker
from kwire.coordinator.timers import Timers
from kwire.invariants import BROKEN_STATE, threatens_durable_data
from kwire.log.append_result import AppendResult
from kwire.log.batch_validation import AppendOrigin
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import BATCH_HEADER_BYTES, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record, encode_batch
from kwire.seams import Clock

logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")
M = TypeVar("M", bound="Machine[Any]")

RECORD_OVERHEAD_BYTES = 32
"""Upper bound of a record's size besides its key and value: lengths, deltas, header count."""


class Write(Generic[R, T]):
    """Records to append and the answer of a request. A plain class, because mypyc compiles no generic dataclass."""

    __slots__ = ("answer", "atomic", "outcome", "producer_epoch", "producer_id", "records", "replay")

    def __init__(
        self,
        *,
        answer: T,
        records: Sequence[R] = (),
        replay: bool = True,
        outcome: Callable[[KafkaError | None], None] | None = None,
        atomic: bool = True,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        self.answer = answer
        self.records = records
        self.replay = replay
        """False if the machine has already changed its soft state, which `outcome` undoes on failure."""
        self.outcome = outcome
        """Callback, called once: with None when the records are committed, else with the error."""
        self.atomic = atomic
        """False if the records may be split into several batches: tombstones of many keys, which are independent."""
        self.producer_id = producer_id
        """Producer of the transaction to which the records belong; they take effect with its commit marker."""
        self.producer_epoch = producer_epoch


Step = Callable[[], "Write[R, None] | None"]
"""Action of a timer."""


class Machine(Protocol[R]):
    """State machine of a shard."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Return key and value as they are stored; the value of a tombstone is None."""

    def decode(self, key: bytes, value: bytes | None) -> R:
        """Return the record. Raises UnknownRecordTypeError for a type of a newer version."""

    def replay(self, record: R, offset: int, producer_id: int) -> None:
        """Apply a record to the state; producer_id is that of its open transaction, or -1."""

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """End a transaction that wrote to this partition."""

    def loaded(self) -> Write[R, None] | None:
        """Prepare for requests after the whole log has been replayed.

        The shard attempts the returned write; its outcome is called when all replayed records are committed.
        """

    def unloaded(self) -> None:
        """Answer all waiting requests, since no more are accepted. The state may be broken."""


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class _Waiting:
    __slots__ = ("answer", "due_ms", "end_offset", "future", "outcome")

    def __init__(
        self,
        end_offset: int,
        answer: object,
        future: asyncio.Future[object],
        outcome: Callable[[KafkaError | None], None] | None,
        due_ms: float,
    ) -> None:
        self.due_ms = due_ms
        """Time at which its client receives a timeout error."""
        self.end_offset = end_offset
        self.answer = answer
        self.future = future
        self.outcome = outcome


class Shard(Generic[R, M]):
    """Shard of a coordinator, which accepts writes for one machine. The runtime creates, loads and closes it."""

    def __init__(
        self,
        partition: Partition,
        *,
        make: Callable[[Timers[Step[R]]], M],
        clock: Clock,
        write_timeout_ms: int,
        broken: Callable[[Shard[R, M]], None],
    ) -> None:
        """Create a loading shard.

        After `write_timeout_ms` a client receives a timeout error for its write, which may still be committed. `broken`
        is called when an invariant of an active shard's machine is broken; it closes the shard.
        """
        self.partition = partition
        self._broken = broken
        self.state = ShardState.LOADING
        self.timers: Timers[Step[R]] = Timers(self._run_step)
        self.machine = make(self.timers)
        self._clock = clock
        self._write_timeout_ms = write_timeout_ms
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._waiting: deque[_Waiting] = deque()
        """Writes that are not committed yet, in the order of their offsets."""

    def __repr__(self) -> str:
        return f"<Shard {self.partition.topic}-{self.partition.index} {self.state.value}>"

    # --- broken invariants

    def __enter__(self) -> None:
        """Begin to use the machine."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Convert a broken invariant to COORDINATOR_LOAD_IN_PROGRESS, and have the log loaded again."""
        if isinstance(error, BROKEN_STATE):
            self._handle_broken_invariant(error)
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error

    def _handle_broken_invariant(self, error: Exception) -> None:
        """Log a broken invariant and have the state loaded again; raise it if it threatens durable data."""
        if threatens_durable_data(error):
            raise error
        logger.error("%r: an invariant is broken; its state is loaded again from its log", self, exc_info=error)
        if self.state is ShardState.ACTIVE:
            self._broken(self)

    # --- writing

    def write(self, write: Write[R, T]) -> T | asyncio.Future[T]:
        """Append a write; return its answer, or a future of it until it is committed. Raises KafkaError."""
        assert self.state is ShardState.ACTIVE
        if write.records:
            try:
                self._append(write)
            except (KafkaError, DiskFailure) as failure:
                error = coordinator_error(failure)
                if write.outcome is not None:
                    write.outcome(error)
                raise error from failure
        return self._complete_when_committed(write)

    def read(self, answer: T) -> T | asyncio.Future[T]:
        """Return an answer derived from the state, or a future of it until that state is committed."""
        return self._complete_when_committed(Write(answer=answer))

    def _append(self, write: Write[R, T]) -> None:
        stored = [self.machine.encode(record) for record in write.records]
        if write.atomic:
            self._append_batch(write, write.records, stored)
            return
        start = 0
        for end in _batch_ends(stored, self.partition.log.config.max_message_bytes):
            self._append_batch(write, write.records[start:end], stored[start:end])
            start = end

    def _append_batch(
        self, write: Write[R, Any], records: Sequence[R], stored: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        now_ms = self._clock.wall_ms()
        batch = encode_batch(
            [Record(key=key, value=value, timestamp=now_ms) for key, value in stored],
            transactional=write.producer_id != NO_PRODUCER_ID,
            producer_id=write.producer_id,
            producer_epoch=write.producer_epoch,
        )
        result = self.partition.append(batch, acks=ACKS_ALL, origin=AppendOrigin.COORDINATOR)
        if write.replay:
            for offset, record in enumerate(records, result.base_offset):
                self.machine.replay(record, offset, write.producer_id)

    def end_transaction(self, marker: TransactionMarker) -> AppendResult:
        """Append a transaction's marker and apply it to the machine. Raises KafkaError or DiskFailure."""
        assert self.state is ShardState.ACTIVE
        result = append_marker(self.partition, marker, self._clock.wall_ms())
        self.machine.replay_marker(marker.producer_id, is_commit=marker.is_commit)
        return result

    # --- waiting for the commit

    def _complete_when_committed(self, write: Write[R, T]) -> T | asyncio.Future[T]:
        end_offset = self.partition.log.log_end_offset
        if not self._waiting and self.partition.high_watermark >= end_offset:
            if write.outcome is not None:
                write.outcome(None)
            return write.answer
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        due_ms = self._clock.monotonic_ms() + self._write_timeout_ms
        self._waiting.append(_Waiting(end_offset, write.answer, future, write.outcome, due_ms))  # type: ignore[arg-type]
        self.partition.wait(self)
        self._schedule_timeout()
        return future

    def _schedule_timeout(self) -> None:
        if self._timeout_timer is not None:
            return
        for waiting in self._waiting:
            if not waiting.future.done():
                left_ms = max(waiting.due_ms - self._clock.monotonic_ms(), 0.0)
                self._timeout_timer = asyncio.get_running_loop().call_later(left_ms / 1000, self._time_out)
                return

    def _time_out(self) -> None:
        """Answer writes that have exceeded the timeout with an error; their records stay, and may be committed."""
        self._timeout_timer = None
        now_ms = self._clock.monotonic_ms()
        for waiting in self._waiting:
            if waiting.due_ms > now_ms:
                break
            if not waiting.future.done():
                waiting.future.set_exception(coordinator_error(KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
        self._schedule_timeout()

    def data_available(self, size: int) -> None:
        """Answer writes that are committed now."""
        self._answer_committed()

    def state_changed(self) -> None:
        """Answer writes that are committed now; fail the others if the log has failed."""
        self._answer_committed()
        if self._waiting and self.partition.log.failure is not None:
            self.close()  # waiting writes will never be committed, but are applied to the state

    def _answer_committed(self) -> None:
        while self._waiting and self._waiting[0].end_offset <= self.partition.high_watermark:
            waiting = self._waiting.popleft()
            self._report_outcome(waiting, None)
            if not waiting.future.done():
                waiting.future.set_result(waiting.answer)
        if not self._waiting:
            self.partition.stop_waiting(self)

    def _report_outcome(self, waiting: _Waiting, error: KafkaError | None) -> None:
        """Call a write's outcome, and handle a broken invariant in it."""
        if waiting.outcome is not None:
            try:
                waiting.outcome(error)
            except BROKEN_STATE as broken:
                self._handle_broken_invariant(broken)

    # --- writes without a waiting client

    def attempt(self, write: Write[R, None] | None) -> None:
        """Write the records of a step, if any; a failure is passed to its outcome, or else logged."""
        if write is None:
            return
        try:
            outcome = self.write(write)
        except KafkaError as error:
            if write.outcome is None:
                logger.warning("%r could not write %d records: %s", self, len(write.records), error)
            return
        if isinstance(outcome, asyncio.Future):
            outcome.add_done_callback(asyncio.Future.exception)  # retrieves the error, which no client awaits

    def _run_step(self, step: Step[R]) -> None:
        if self.state is ShardState.ACTIVE:
            try:
                self.attempt(step())
            except BROKEN_STATE as broken:
                self._handle_broken_invariant(broken)

    # --- activation and close

    def activate(self) -> None:
        """Accept requests after the log has been replayed."""
        assert self.state is ShardState.LOADING
        self.state = ShardState.ACTIVE
        self.attempt(self.machine.loaded())

    def close(self) -> None:
        """Close the shard, and answer all waiting requests with NOT_COORDINATOR."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        self.timers.cancel_all()
        self.partition.stop_waiting(self)
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        # Unload the machine first, so that outcomes of failed writes do not undo or repeat changes in a discarded
        # state.
        try:
            self.machine.unloaded()
        except BROKEN_STATE as broken:
            self._handle_broken_invariant(broken)
        error = KafkaError(ErrorCode.NOT_COORDINATOR)
        while self._waiting:
            waiting = self._waiting.popleft()
            self._report_outcome(waiting, error)
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self.timers.cancel_all()


def _batch_ends(stored: Sequence[tuple[bytes, bytes | None]], bytes_max: int) -> Iterable[int]:
    """Yield the ends of batches that the partition accepts; the append rejects a single record that is too large."""
    size = BATCH_HEADER_BYTES
    start = 0
    for index, (key, value) in enumerate(stored):
        record_size = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
        if index > start and size + record_size > bytes_max:
            yield index
            start, size = index, BATCH_HEADER_BYTES
        size += record_size
    if stored:
        yield len(stored)

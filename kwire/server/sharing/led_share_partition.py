"""Share partition while this broker leads its partition: loading, writes to the persister, timers, waiting fetches.

One write to the persister is under way at a time, so that they are stored in order; changes that come meanwhile are
written together. One fetch at a time reads the log for the share partition: it has the fetch lock. Fetches that wait
are woken one after another, because the first one may acquire everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol

from kwire.chunks import in_turns
from kwire.cluster.partitions.partition import Partition
from kwire.log.large_batches import LargeBatches
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock
from kwire.server.sharing.acquiring import Asked
from kwire.server.sharing.chosen_starts import ChosenStart
from kwire.server.sharing.config import ShareGroupSettings
from kwire.server.sharing.in_flight import Change
from kwire.server.sharing.in_flight_limit import InFlightLimit
from kwire.server.sharing.offset_reset import first_offset, isolation_level_of
from kwire.server.sharing.persister import FENCING, NO_START_OFFSET, Persister, error_for_clients
from kwire.server.sharing.share_partition import SharePartition
from kwire.server.sharing.states import Acknowledgement, Acquired, Span, StateBatch

logger = logging.getLogger(__name__)

WRITTEN_AT_ONCE: Final = 4096
"""State batches that the changes of one write have together; a change with more is written alone."""


def _ignore() -> None:
    """Ignore the call."""


class WaitingFetch(Protocol):
    """Share fetch that waits for records."""

    def look_at(self, led: LedSharePartition) -> None:
        """Try to acquire records of a share partition soon, then call its `looked_at`."""


class LedSharePartition:
    """Share partition of one group, from its first fetch until this broker loses the leadership or it fails."""

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        *,
        persister: Persister,
        settings: Callable[[], ShareGroupSettings],
        clock: Clock,
        large_batches: LargeBatches,
        messages: RepeatedMessages,
        in_flight_limit: InFlightLimit,
        dropped: Callable[[LedSharePartition], None],
        predecessor: LedSharePartition | None = None,
        chosen_start: ChosenStart | None = None,
    ) -> None:
        """Begin to load a share partition, after the last write of a predecessor that has failed.

        `chosen_start` is the first offset that an earlier object for this share partition has chosen.
        """
        self.group_id = group_id
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.settings = settings
        self.state: SharePartition | None = None
        """None until the state is loaded."""
        self.failure: KafkaError | None = None
        """Error for the clients; a share partition that has failed serves no more requests."""
        self.chosen_start = chosen_start
        """First offset that was chosen by share.auto.offset.reset and is not stored yet; None if it is stored."""
        self.waiters: dict[WaitingFetch, None] = {}
        self._persister = persister
        self._clock = clock
        self._large_batches = large_batches
        self._messages = messages
        self._in_flight_limit = in_flight_limit
        self._in_flight_count = 0
        """Records in flight that are counted for the limit."""
        self._dropped = dropped
        self._holder: WaitingFetch | None = None
        """Fetch that has the fetch lock."""
        self._was_refused = False
        """True if another fetch has asked for the fetch lock meanwhile."""
        self._to_wake: deque[WaitingFetch] = deque()
        self._wakes_soon = False
        self._to_write: deque[tuple[Change, asyncio.Future[None]]] = deque()
        self._is_writing = False
        self._lacks_expiration = False
        """True if expired locks could not be stored, and nothing has been stored since."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        partition.watch(self)
        self._run(partial(self._load, predecessor))

    def __repr__(self) -> str:
        return f"share partition {self.partition.topic}-{self.partition.index} of group {self.group_id}"

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run a coroutine to its end, also if the client that caused it disconnects."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its client may have disconnected

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine. A broken invariant costs only this share partition, which is dropped."""
        try:
            await work()
        except KafkaError:
            raise
        except Exception as error:
            self._break(error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _break(self, error: Exception) -> None:
        """Drop the share partition because of an unexpected error."""
        logger.error("%r failed; it is dropped and loaded again", self, exc_info=error)
        self.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    # --- loading

    async def _load(self, predecessor: LedSharePartition | None) -> None:
        partition = self.partition
        if predecessor is not None:
            await predecessor.settled()
        try:
            state_epoch, start_offset, batches = await self._persister.read_state(
                self.group_id, partition.topic_id, partition.index, self.leader_epoch
            )
        except KafkaError as error:
            self.fail(error_for_clients(error))
            return
        try:
            if start_offset != NO_START_OFFSET:
                self.chosen_start = None
            else:
                if self.chosen_start is None or self.chosen_start.state_epoch != state_epoch:
                    self.chosen_start = ChosenStart(state_epoch, await self._first_offset())
                start_offset = self.chosen_start.offset
            state = SharePartition(
                start_offset,
                state_epoch=state_epoch,
                settings=self.settings,
                in_flight_max=self._in_flight_limit.records_max,
            )
            await in_turns(state.load(batches))
        except KafkaError as error:
            self.fail(error)
            return
        except ValueError as error:
            logger.error("%r cannot be loaded: %s", self, error)  # noqa: TRY400 the message says all
            self.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The stored state is invalid."))
            return
        if self.failure is None:
            self.state = state
            state.move_start(partition.log.log_start_offset)
            self._count_in_flight()
            self._wake_all()

    async def _first_offset(self) -> int:
        """Return the first offset of a group that begins to read. Raises KafkaError."""
        reset = self.settings().offset_reset
        return await in_turns(first_offset(self.partition, reset, self._large_batches, self._clock.wall_ms()))

    def fail(self, error: KafkaError) -> None:
        """Stop serving the share partition; the next fetch loads it again."""
        if self.failure is not None:
            return
        self.failure = error
        self.partition.stop_watching(self)
        if self._timer is not None:
            self._timer.cancel()
        self._count_in_flight()
        self._dropped(self)
        self._wake_all()

    def stop(self) -> None:
        """Stop with the broker."""
        self.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for task in self._tasks:
            task.cancel()

    async def settled(self) -> None:
        """Wait until nothing is being written any more, after a failure."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def is_idle(self) -> bool:
        """True if nothing is lost when the share partition is dropped: all its changes are stored."""
        return not (self._tasks or self._to_write or self.waiters or self._holder)

    # --- the partition's calls

    def committed(self, size: int) -> None:
        self.wake()

    def log_start_moved(self) -> None:
        if self.state is None or self.failure is not None:
            return
        try:
            self.state.move_start(self.partition.log.log_start_offset)
            self._count_in_flight()
        except Exception as error:  # noqa: BLE001 the caller is a change of the partition, which must not fail
            self._break(error)
        self.wake()

    def state_changed(self) -> None:
        partition = self.partition
        if partition.log.failure is not None:
            self.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        elif partition.is_removed or not partition.is_led or partition.leader_epoch != self.leader_epoch:
            self.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            self.log_start_moved()

    # --- fetches

    @property
    def readable_end(self) -> int:
        """First offset that the members may not read."""
        return self.partition.end_offset(isolation_level_of(self.settings()))

    def wait(self, fetch: WaitingFetch) -> None:
        """Notify a fetch of records that can be acquired, and of the end of this object."""
        self.waiters[fetch] = None

    def stop_waiting(self, fetch: WaitingFetch) -> None:
        self.waiters.pop(fetch, None)

    def can_be_fetched(self) -> bool:
        """Return True if records may be acquired once they are there, and no fetch has the fetch lock."""
        return self.state is not None and self.failure is None and self._holder is None and self.state.can_acquire()

    def take_fetch_lock(self, fetch: WaitingFetch) -> bool:
        """Return True if a fetch may read the log for this share partition; no other one can until it releases it."""
        if not self.can_be_fetched():
            self._was_refused |= self._holder is not None
            return False
        self._holder = fetch
        return True

    def release_fetch_lock(self, fetch: WaitingFetch) -> None:
        assert self._holder is fetch, "a fetch releases its own lock"
        self._holder = None
        if self._was_refused:
            self._was_refused = False
            self.wake(but=fetch)

    def acquire(
        self, fetch: WaitingFetch, asked: Asked, fetch_offset: int, log_batches: Sequence[Span], aborted: Sequence[Span]
    ) -> list[Acquired]:
        """Acquire records for the fetch that has the fetch lock."""
        assert self._holder is fetch, "a fetch acquires under the fetch lock"
        if self.state is None or self.failure is not None:
            return []
        try:
            acquired = self.state.acquire(asked, fetch_offset, log_batches, self._clock.monotonic_ms(), aborted)
        except Exception as error:  # noqa: BLE001 other share partitions of the fetch are served
            self._break(error)
            return []
        self._count_in_flight()
        self._set_timer()
        return acquired

    def _count_in_flight(self) -> None:
        count = 0 if self.state is None or self.failure is not None else self.state.in_flight_count
        self._in_flight_limit.change(self._in_flight_count, count)
        self._in_flight_count = count

    def wake(self, *, but: WaitingFetch | None = None) -> None:
        """Wake the waiting fetches one after another, as long as there is something to acquire."""
        if self.waiters and self._has_something:
            self._to_wake = deque(fetch for fetch in self.waiters if fetch is not but)
            self._wake_next_soon()

    def looked_at(self) -> None:
        """Wake the next waiting fetch: the one that was woken has taken what it needs."""
        if self._to_wake and self._has_something:
            self._wake_next_soon()

    @property
    def _has_something(self) -> bool:
        if not self.can_be_fetched():
            return False
        assert self.state is not None
        return self.state.next_fetch_offset() < self.readable_end

    def _wake_next_soon(self) -> None:
        if not self._wakes_soon:
            self._wakes_soon = True
            asyncio.get_running_loop().call_soon(self._wake_next)

    def _wake_next(self) -> None:
        self._wakes_soon = False
        while self._to_wake:
            fetch = self._to_wake.popleft()
            if fetch in self.waiters:
                fetch.look_at(self)
                return

    def _wake_all(self) -> None:
        self._to_wake.clear()
        for fetch in list(self.waiters):
            fetch.look_at(self)

    # --- acknowledgements

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], *, applied: Callable[[], None] = _ignore
    ) -> asyncio.Task[None]:
        """Acknowledge records; the task ends when that is stored, or raises KafkaError and nothing has changed.

        `applied` is called before it is stored, when the records have their new state or the request is rejected.
        """
        return self._run(partial(self._acknowledge, member, acknowledgements, applied))

    async def _acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], applied: Callable[[], None]
    ) -> None:
        try:
            state = self._loaded()
            now_ms = self._clock.monotonic_ms()
            change = await in_turns(state.acknowledge(member, acknowledgements, now_ms))
        finally:
            applied()
        self._set_timer()
        await self._store(change)

    def release(self, member: str, session: int) -> asyncio.Task[None]:
        """Release all records that a member has acquired up to a share session, which has ended."""
        return self._run(partial(self._release, member, session))

    async def _release(self, member: str, session: int) -> None:
        await self._store(await in_turns(self._loaded().release(member, session)))

    def _loaded(self) -> SharePartition:
        if self.failure is not None:
            raise self.failure
        if self.state is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The share partition is still being loaded.")
        return self.state

    # --- locks

    def _set_timer(self) -> None:
        assert self.state is not None
        deadline_ms = self.state.next_deadline_ms
        if deadline_ms is None or self.failure is not None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return  # it sets the next timer
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000.0, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.state is None or self.failure is not None:
            return
        deadline_ms = self.state.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self._clock.monotonic_ms():
            self._run(partial(self._expire, self.state))
        else:
            self._set_timer()

    async def _expire(self, state: SharePartition) -> None:
        change = state.expire(self._clock.monotonic_ms())
        self._set_timer()
        if change.batches:
            self.wake()
            await self._store(change)

    # --- persister

    async def _store(self, change: Change) -> None:
        """Return when a change is stored. Raises KafkaError if it is not; then it is undone.

        A change without batches finds its records changed already, by a write that may be under way or have failed.
        """
        if not change.batches and not self._is_writing and not self._lacks_expiration:
            return
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._to_write.append((change, stored))
        if not self._is_writing:
            self._is_writing = True
            self._run(self._write_all)
        try:
            await stored
        except KafkaError as error:
            if change.is_reversible:
                raise
            # The loss may allow one more delivery: a new leader does not count the deliveries since the last write.
            subject = "expired", self.group_id
            self._messages.log(logging.WARNING, subject, "%r: cannot store that locks have expired: %s", self, error)

    async def _write_all(self) -> None:
        try:
            while self._to_write:
                await self._write_next()
        finally:
            self._is_writing = False
            for _, stored in self._to_write:  # the task has failed
                _reject(stored, self.failure or KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    async def _write_next(self) -> None:
        """Write the next changes together."""
        state, partition = self.state, self.partition
        assert state is not None
        written: list[tuple[Change, asyncio.Future[None]]] = []
        batches: list[StateBatch] = []
        while self._to_write and (not written or len(batches) + len(self._to_write[0][0].batches) <= WRITTEN_AT_ONCE):
            written.append(self._to_write.popleft())
            batches += written[-1][0].batches
        error = self.failure
        if error is None:
            try:
                await self._persister.write_state(
                    self.group_id,
                    partition.topic_id,
                    partition.index,
                    state.state_epoch,
                    self.leader_epoch,
                    state.start_offset,
                    state.delivery_complete_count,
                    batches,
                )
            except KafkaError as rejection:
                error = error_for_clients(rejection)
            except BaseException:
                self._answer(written, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                raise
            else:
                self.chosen_start = None
                self._lacks_expiration = False
        if error is not None:
            self._lacks_expiration |= any(not change.is_reversible for change, _ in written)
        # Another leader may have read the state before a change that was stored after a failure.
        error = error or self.failure
        has_effect = False
        for change, _ in written:
            now_ms = self._clock.monotonic_ms()
            has_effect |= await in_turns(state.finish(change, is_stored=error is None, now_ms=now_ms))
        self._count_in_flight()
        if error is not None and error.code in FENCING:
            self.fail(error)
        self._answer(written, error)
        self._set_timer()
        if has_effect:
            self.wake()

    def _answer(self, written: Sequence[tuple[Change, asyncio.Future[None]]], error: KafkaError | None) -> None:
        for _, stored in written:
            if error is not None:
                _reject(stored, error)
            elif not stored.done():
                stored.set_result(None)


def _reject(stored: asyncio.Future[None], error: KafkaError) -> None:
    if not stored.done():
        stored.set_exception(error)
        stored.exception()  # nothing may wait for it any more

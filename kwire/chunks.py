"""Work in pieces (kwire.server.requests.api.Handler): helpers that split long loops into steps of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
E = TypeVar("E")
A = TypeVar("A")
R = TypeVar("R")
Steps = Generator[Awaitable[Any] | None, Any, T]
"""Work in steps. Yields None where other tasks may run, or an awaitable whose result the caller sends back."""
Pieces = Generator[None, None, T]
"""Work in steps that never waits."""

CHUNK: Final = 64
ITEMS_AT_ONCE: Final = 8
"""Items between two steps if each item is itself processed in steps."""


class StepLine:
    """Queue of steps of long work; the event loop runs one step in each iteration.

    If each request ran one step per iteration, twenty requests with steps of one millisecond would block the loop for
    twenty milliseconds. Steps of the control plane have their own lane. While both lanes have steps, each gets every
    other iteration, whatever the load from clients.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._preferred: deque[Callable[[], object]] = deque()
        self._was_preferred = False
        """True if the last step was one of the preferred lane."""
        self._is_scheduled = False

    def add(self, step: Callable[[], object], *, is_preferred: bool = False) -> None:
        """Run a step after those that wait in the same lane."""
        (self._preferred if is_preferred else self._waiting).append(step)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._was_preferred = bool(self._preferred) and not (self._was_preferred and self._waiting)
        step = (self._preferred if self._was_preferred else self._waiting).popleft()
        try:
            step()
        finally:
            self._is_scheduled = bool(self._waiting or self._preferred)
            if self._is_scheduled:
                self._loop.call_soon(self._next)


_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, StepLine] = WeakKeyDictionary()


def step_line() -> StepLine:
    """Return the queue of the running event loop."""
    loop = asyncio.get_running_loop()
    line = _LINES.get(loop)
    if line is None:
        line = _LINES[loop] = StepLine(loop)
    return line


async def turn(*, is_preferred: bool = False) -> None:
    """Wait for this task's turn in the queue of steps. The preferred lane is that of the control plane."""
    reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    step_line().add(partial(_reach, reached), is_preferred=is_preferred)
    await reached


def _reach(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Yield the items in lists of `size`: at a few microseconds each, a list takes less than a millisecond."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def is_many(sizes: Iterable[int]) -> bool:
    """Return True if the sizes sum up to more than a chunk; 0 counts as 1, because the item is visited too."""
    total = 0
    for size in sizes:
        total += size or 1
        if total > CHUNK:
            return True
    return False


def mapped(items: Iterable[T], function: Callable[[T], R]) -> Pieces[list[R]]:
    """Return function(item) of each item; yield after every CHUNK items."""
    results: list[R] = []
    for chunk in chunks(items):
        results += [function(item) for item in chunk]
        if len(chunk) == CHUNK:
            yield
    return results


def mapped_in_pieces(items: Iterable[T], function: Callable[[T], Pieces[R]]) -> Pieces[list[R]]:
    """Return the result of function(item), which runs in pieces, for each item; also yield after a few items.

    The work of an item after its last yield may be nearly as long as a whole piece.
    """
    results: list[R] = []
    for item in items:
        result = yield from function(item)
        results.append(result)
        if len(results) % ITEMS_AT_ONCE == 0:
            yield
    return results


def mapped_by_group(
    groups: Iterable[T],
    elements_of: Callable[[T], Iterable[E]],
    function: Callable[[T, E], A],
    join: Callable[[T, list[A]], R],
) -> Pieces[list[R]]:
    """Return join(group, [function(group, element) of each element]) of each group; yield after about CHUNK elements.

    A group without elements counts as one.
    """
    joined: list[R] = []
    count = 0
    for group in groups:
        results: list[A] = []
        for chunk in chunks(elements_of(group)):
            results += [function(group, element) for element in chunk]
            count += len(chunk)
            if count >= CHUNK:
                count = 0
                yield
        joined.append(join(group, results))
        count += not results
        if count >= CHUNK:
            count = 0
            yield
    return joined


def at_once(steps: Steps[T]) -> T:
    """Return the result of steps that are few and never wait."""
    try:
        while True:
            waits_for = next(steps)
            assert waits_for is None, "what waits cannot be made at once"
    except StopIteration as end:
        result: T = end.value
        return result


def until_wait(steps: Steps[T]) -> Generator[None, None, T | asyncio.Future[T]]:
    """Run the steps up to the first that waits; a task, which ends when its client disconnects, runs the rest."""
    try:
        while True:
            waits_for = next(steps)
            if waits_for is not None:
                return asyncio.ensure_future(in_turns(steps, waits_for))
            yield
    except StopIteration as end:
        result: T = end.value
        return result


async def in_turns(steps: Steps[T], waits_for: Awaitable[Any] | None = None, *, is_preferred: bool = False) -> T:
    """Return the result of steps in a coroutine, with other tasks running between any two steps.

    The preferred lane is that of the control plane.
    """
    try:
        if waits_for is None:
            waits_for = next(steps)
        while True:
            result: Any = None
            try:
                result = await (turn(is_preferred=is_preferred) if waits_for is None else waits_for)
            except Exception as error:  # noqa: BLE001 the steps handle it
                waits_for = None  # it may refer to the error, whose traceback refers to this frame
                waits_for = steps.throw(error)
            else:
                waits_for = steps.send(result)
    except StopIteration as end:
        whole: T = end.value
        return whole
    finally:
        steps.close()


def is_in_pieces(outcome: Any) -> bool:
    """Return True if a handler's outcome is work in pieces. A compiled coroutine is also a generator."""
    return isinstance(outcome, Generator) and not isinstance(outcome, Awaitable)


async def whole(outcome: Any) -> Any:
    """Return the final answer of a handler's outcome, which may be work in pieces or an awaitable."""
    try:
        while True:
            if is_in_pieces(outcome):
                outcome = await in_turns(outcome)
            elif isinstance(outcome, Awaitable):
                outcome = await outcome
            else:
                return outcome
    finally:
        del outcome  # a future references its error, whose traceback references this frame


def finished_in_pieces(outcome: Pieces[T] | Awaitable[Pieces[T]]) -> Pieces[T | Awaitable[Any]]:
    """Return the result of work in pieces; an awaitable is returned unchanged."""
    if isinstance(outcome, Awaitable):
        return outcome
    return (yield from outcome)


def slices(
    topics: Iterable[T], elements_of: Callable[[T], Sequence[E]], part_of: Callable[[T, Sequence[E]], T], size: int
) -> Iterator[list[T]]:
    """Yield the topics in slices of at most `size` elements, splitting long topics; yield at least one slice.

    A topic without elements counts as one.
    """
    chunk: list[T] = []
    count = 0
    for topic in topics:
        elements = elements_of(topic)
        for start in range(0, len(elements) or 1, size):
            part = elements[start : start + size]
            if count + (len(part) or 1) > size:
                yield chunk
                chunk, count = [], 0
            chunk.append(part_of(topic, part))
            count += len(part) or 1
    yield chunk

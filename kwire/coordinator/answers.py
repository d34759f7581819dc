"""Answers that are available at once or later; no task is created for those that are available.

A later answer is a task, not a coroutine: all that remains is a wait, which is cancelled when its client disconnects.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, Union

from kwire.chunks import Pieces, chunks, is_in_pieces, mapped, turn

T = TypeVar("T")
U = TypeVar("U")

MANY: Final = 1024
"""Answers that are processed in one step."""
Answer = Union[T, Awaitable[T]]  # noqa: UP007 mypy takes the other spelling for a variable


def when_answered(answer: Answer[T], finish: Callable[[T], U]) -> Answer[U]:
    """Return finish(answer), now or when the answer is available."""
    if inspect.isawaitable(answer):
        return asyncio.ensure_future(_later(answer, finish))
    return finish(answer)


async def _later(answer: Awaitable[T], finish: Callable[[T], U]) -> U:
    try:
        available = await answer
    finally:
        del answer  # a future references its error, whose traceback references this frame
    return finish(available)


def when_all_answered(answers: Sequence[Answer[T]], finish: Callable[[list[T]], U]) -> Answer[U]:
    """Return finish(all answers, in their order), now or when the last one is available."""
    if any([isinstance(answer, Awaitable) for answer in answers]):  # noqa: C419 a list is quicker for many
        # Wrap all of them in tasks now. Then cancelling a task also cancels what it waits for, and the error of a later
        # answer is not left unretrieved.
        waited_for = [_waited_for(answer) for answer in answers]
        return asyncio.ensure_future(_all_later(waited_for, finish))
    available: list[Any] = list(answers)
    return finish(available)


def when_many_answered(answers: Sequence[Answer[T]], finish: Callable[[list[T]], Any]) -> Pieces[Answer[Any]]:
    """Return what when_all_answered returns, in pieces; `finish` may itself return pieces, which then follow."""
    for chunk in chunks(answers, MANY):
        if any([isinstance(answer, Awaitable) for answer in chunk]):  # noqa: C419 see above
            waited_for: list[Any] = yield from mapped(answers, _waited_for)
            return asyncio.ensure_future(_all_later(waited_for, finish))
        yield
    available: list[Any] = list(answers)
    finished = finish(available)
    return (yield from finished) if is_in_pieces(finished) else finished


def _waited_for(answer: Answer[Any]) -> asyncio.Future[Any] | Any:
    return asyncio.ensure_future(answer) if isinstance(answer, Awaitable) else answer


async def _all_later(answers: Sequence[asyncio.Future[T] | T], finish: Callable[[list[T]], U]) -> U:
    # Await them one after another: none of them needs another's wait to proceed.
    available: list[T] = []
    answer: Any = None
    try:
        for number, answer in enumerate(answers, 1):
            available.append(await answer if isinstance(answer, asyncio.Future) else answer)
            if number % MANY == 0:
                await turn()
    finally:
        _cancel(answers[len(available) :])  # the client has disconnected, so nothing else awaits them
        del answers, answer  # see _later
    return finish(available)


def _cancel(answers: Sequence[Any]) -> None:
    for unfinished in answers:
        if isinstance(unfinished, asyncio.Future):
            unfinished.cancel()

"""Answers that are there, come later, or are waited for no more."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from kwire.coordinator.answers import Answer, when_all_answered, when_answered


def total(values: list[int]) -> int:
    return sum(values)


async def later(value: int) -> int:
    return value


def test_what_is_there_is_finished_at_once() -> None:
    assert when_answered(1, lambda value: value + 1) == 2
    assert when_all_answered([1, 2], sum) == 3


def test_what_comes_later_is_finished_then() -> None:
    async def main() -> None:
        first: Answer[int] = later(1)
        answers: list[Answer[int]] = [later(1), 2]
        one = when_answered(first, lambda value: value + 1)
        both = when_all_answered(answers, total)
        assert inspect.isawaitable(one)
        assert inspect.isawaitable(both)
        assert (await one, await both) == (2, 3)

    asyncio.run(main())


def test_who_is_waited_for_no_more_leaves_nothing_behind() -> None:
    async def main() -> None:
        first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        second = later(2)
        third: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        answers: list[Answer[int]] = [first, second, third]
        all_of_them = when_all_answered(answers, total)
        assert isinstance(all_of_them, asyncio.Future), "else its client's leaving would not end it"
        await asyncio.sleep(0)
        all_of_them.cancel()
        with pytest.raises(asyncio.CancelledError):
            await all_of_them
        assert inspect.getcoroutinestate(second) == inspect.CORO_CLOSED
        assert (first.cancelled(), third.cancelled()) == (True, True)

    asyncio.run(main())

"""Answers: already available, available later, or no longer awaited."""

from __future__ import annotations

import asyncio
import gc
import inspect

import pytest

from kwire.coordinator.answers import Answer, when_all_answered, when_answered


def total(values: list[int]) -> int:
    return sum(values)


async def later(value: int) -> int:
    return value


def test_callbacks_of_finished_answers_run_at_once() -> None:
    assert when_answered(1, lambda value: value + 1) == 2
    assert when_all_answered([1, 2], sum) == 3


def test_callbacks_of_pending_answers_run_when_they_finish() -> None:
    async def main() -> None:
        first: Answer[int] = later(1)
        answers: list[Answer[int]] = [later(1), 2]
        one = when_answered(first, lambda value: value + 1)
        both = when_all_answered(answers, total)
        assert inspect.isawaitable(one)
        assert inspect.isawaitable(both)
        assert (await one, await both) == (2, 3)

    asyncio.run(main())


async def after(future: asyncio.Future[int]) -> int:
    return await future


def test_a_cancelled_answer_leaves_no_task() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[int]] = [loop.create_future() for _ in range(4)]
        first, second, third, fourth = futures
        answers: list[Answer[int]] = [first, after(second), third, after(fourth)]
        all_of_them = when_all_answered(answers, total)
        assert isinstance(all_of_them, asyncio.Future), "else its client's leaving would not end it"
        await asyncio.sleep(0)
        all_of_them.cancel()
        with pytest.raises(asyncio.CancelledError):
            await all_of_them
        await asyncio.sleep(0)
        assert [future.cancelled() for future in futures] == [True] * 4

    asyncio.run(main())


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_error_after_a_disconnect_is_not_logged_as_unretrieved(*, has_begun: bool) -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        complaints: list[str] = []
        loop.set_exception_handler(lambda _, reported: complaints.append(reported["message"]))
        futures: list[asyncio.Future[int]] = [loop.create_future() for _ in range(2)]

        async def rejecting(future: asyncio.Future[int]) -> int:
            try:
                return await future
            except ValueError:
                return 0

        all_of_them = when_all_answered([rejecting(future) for future in futures], total)
        assert isinstance(all_of_them, asyncio.Future)
        if has_begun:
            await asyncio.sleep(0)
        all_of_them.cancel()
        await asyncio.wait([all_of_them])
        for future in futures:
            if not future.done():
                future.set_exception(ValueError())
        await asyncio.sleep(0)
        futures.clear()
        del all_of_them, future
        gc.collect()
        return complaints

    assert asyncio.run(main()) == []


def test_cancelling_combined_answers_cancels_only_the_pending_ones() -> None:
    async def main() -> None:
        first, last = [asyncio.get_running_loop().create_future() for _ in range(2)]
        answers: list[Answer[int]] = [first, 2, last]
        all_of_them = when_all_answered(answers, total)
        assert isinstance(all_of_them, asyncio.Future)
        await asyncio.sleep(0)
        all_of_them.cancel()
        await asyncio.wait([all_of_them])
        assert (first.cancelled(), last.cancelled()) == (True, True)

    asyncio.run(main())

"""Request time: the steps of a coroutine count, its waits do not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kwire.server.quotas.counted_steps import CountedSteps
from tests.virtual_loop import virtual_loop


class Quotas:
    """Quotas that count as the quota manager does, with a clock that tests advance."""

    def __init__(self) -> None:
        self.now_ms = self.began_ms = 0.0

    def begin(self, spent_ms: float = 0.0) -> None:
        self.began_ms = self.now_ms - spent_ms

    def spent_ms(self) -> float:
        return self.now_ms - self.began_ms


def test_processing_time_counts_and_waiting_time_does_not() -> None:
    quotas = Quotas()

    async def handler() -> str:
        quotas.now_ms += 3
        await asyncio.sleep(1)
        quotas.now_ms += 4
        with pytest.raises(ValueError, match="no"):
            await rejecting()
        quotas.now_ms += 5
        return "answer"

    async def rejecting() -> None:
        await asyncio.sleep(1)
        raise ValueError("no")

    async def other() -> None:
        for _ in range(5):
            quotas.begin()
            quotas.now_ms += 1000
            await asyncio.sleep(0.5)

    with virtual_loop() as loop:

        async def main() -> None:
            quotas.begin()
            quotas.now_ms += 2
            counted = CountedSteps(handler(), cast("Any", quotas))
            answer, _ = await asyncio.gather(counted, other())
            assert answer == "answer"
            assert counted.spent_ms == 2 + 3 + 4 + 5

        loop.run_until_complete(main())


def test_cancelling_a_counted_handler_cancels_its_wait() -> None:
    ended: list[str] = []

    async def handler() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with virtual_loop() as loop:

        async def main() -> None:
            task = asyncio.ensure_future(CountedSteps(handler(), cast("Any", Quotas())))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        loop.run_until_complete(main())
    assert ended == ["cancelled"]

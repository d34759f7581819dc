"""Worker calls that are awaited even if their tasks were cancelled."""

from __future__ import annotations

import asyncio

import pytest

from kwire.server.node.tracked_workers import TrackedWorkers
from tests.cluster.world import InlineWorkers


def test_a_call_whose_task_was_cancelled_is_waited_for() -> None:
    async def scene() -> None:
        inner = InlineWorkers()
        inner.held = True
        workers, said = TrackedWorkers(inner), list[str]()
        calling = asyncio.ensure_future(workers.run(lambda: said.append("ran")))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        draining = asyncio.ensure_future(workers.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        inner.release()
        await draining
        assert said == ["ran"]

    asyncio.run(scene())


def test_results_and_exceptions_of_a_call_are_passed_on() -> None:
    async def scene() -> None:
        workers = TrackedWorkers(InlineWorkers())
        assert await workers.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)
        await workers.drain()

    asyncio.run(scene())

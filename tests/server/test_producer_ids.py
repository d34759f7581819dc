"""Producer ids from blocks: each is unique, and waiting requests share one request to the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.other_nodes.producer_ids import ProducerIds
from tests.virtual_loop import virtual_loop


class Blocks:
    """Controller that allocates blocks of three ids after a second, or rejects."""

    def __init__(self) -> None:
        self.asked = 0
        self.rejects = False

    async def allocate(self) -> range:
        self.asked += 1
        first = self.asked * 10
        await asyncio.sleep(1)
        if self.rejects:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return range(first, first + 3)


def run(scenario: Callable[[Blocks, ProducerIds], Awaitable[None]]) -> None:
    blocks = Blocks()
    with virtual_loop() as loop:

        async def main() -> None:
            await scenario(blocks, ProducerIds(blocks.allocate))

        loop.run_until_complete(main())


def test_each_producer_id_is_unique_and_a_block_serves_all_waiters() -> None:
    async def scenario(blocks: Blocks, ids: ProducerIds) -> None:
        given = await asyncio.gather(*(ids.next() for _ in range(7)))
        assert sorted(given) == [10, 11, 12, 20, 21, 22, 30]
        assert blocks.asked == 3

    run(scenario)


def test_a_failed_block_allocation_fails_all_waiters_at_once() -> None:
    async def scenario(blocks: Blocks, ids: ProducerIds) -> None:
        blocks.rejects = True
        outcomes = await asyncio.gather(*(ids.next() for _ in range(5)), return_exceptions=True)
        assert all(isinstance(outcome, KafkaError) for outcome in outcomes)
        assert (blocks.asked, asyncio.get_running_loop().time()) == (1, 1.0)
        blocks.rejects = False
        assert await ids.next() == 20

    run(scenario)


def test_a_cancelled_waiter_uses_no_producer_id() -> None:
    async def scenario(blocks: Blocks, ids: ProducerIds) -> None:
        one, other = asyncio.ensure_future(ids.next()), asyncio.ensure_future(ids.next())
        await asyncio.sleep(0.5)
        one.cancel()
        assert await other == 10
        with pytest.raises(asyncio.CancelledError):
            await one
        assert await ids.next() == 11

    run(scenario)

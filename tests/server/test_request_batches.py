"""RequestBatches: a burst of items needs few requests, and each item gets its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from kwire.server.other_nodes.request_batches import PARTITIONS_MAX, REQUESTS_AT_ONCE, RequestBatches
from tests.virtual_loop import virtual_loop


class Peers:
    """Peers that respond when the test says so; the result of an item is twice its value."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, list[int]]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def answer(self, broker_id: int, items: Sequence[int]) -> list[int]:
        self.requests.append((broker_id, list(items)))
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return [2 * item for item in items]


async def turn(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def test_many_items_at_once_are_sent_in_few_requests() -> None:
    async def burst() -> None:
        peers = Peers()
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        peers.may_answer.set()
        results = await asyncio.gather(*(batches.add(7, item, item, 1) for item in range(1200)))
        assert results == [2 * item for item in range(1200)]
        assert [len(items) for _, items in peers.requests] == [PARTITIONS_MAX, PARTITIONS_MAX, 200]
        assert not batches._peers, "nothing is kept for a broker of whom nothing is wanted"

    with virtual_loop() as loop:
        loop.run_until_complete(burst())


def test_items_added_during_a_request_share_the_next_one() -> None:
    async def trickle() -> None:
        peers = Peers()
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        results = []
        for item in range(100):
            results.append(batches.add(7, item, item, 1))
            await asyncio.sleep(0)
        elsewhere = batches.add(8, 0, 5, 1)
        await turn(lambda: len(peers.requests) == REQUESTS_AT_ONCE + 1)
        peers.may_answer.set()
        assert await asyncio.gather(*results) == [2 * item for item in range(100)]
        assert await elsewhere == 10
        assert [each for each in peers.requests if each[0] == 7] == [
            (7, [0]),
            (7, [1]),
            (7, list(range(2, 100))),
        ]

    with virtual_loop() as loop:
        loop.run_until_complete(trickle())


def test_items_of_one_key_never_share_a_request() -> None:
    async def repeat() -> None:
        peers = Peers()
        peers.may_answer.set()
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        results = [batches.add(7, key, item, 1) for key, item in (("a", 1), ("b", 2), ("a", 3), ("c", 4))]
        assert await asyncio.gather(*results) == [2, 4, 6, 8]
        assert [items for _, items in peers.requests] == [[1, 2], [3, 4]]

    with virtual_loop() as loop:
        loop.run_until_complete(repeat())


def test_an_error_reaches_all_items_of_its_request_and_a_cancelled_item_is_not_sent() -> None:
    async def fail() -> None:
        peers = Peers()
        peers.error = OSError("gone")
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        first, second = batches.add(7, 1, 1, 1), batches.add(7, 2, 2, 1)
        await turn(lambda: len(peers.requests) == 1)
        third, fourth = batches.add(7, 3, 3, 1), batches.add(7, 4, 4, 1)
        third.cancel()
        peers.may_answer.set()
        outcomes = await asyncio.gather(first, second, third, fourth, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [OSError, OSError, asyncio.CancelledError, OSError]
        assert [items for _, items in peers.requests] == [[1, 2], [4]]

    with virtual_loop() as loop:
        loop.run_until_complete(fail())


def test_stopping_cancels_what_is_under_way_and_what_waits() -> None:
    async def stop() -> None:
        peers = Peers()
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        under_way = batches.add(7, 1, 1, 1)
        await turn(lambda: len(peers.requests) == 1)
        waiting = batches.add(7, 2, 2, 1)
        batches.stop()
        for result in (under_way, waiting):
            with pytest.raises(asyncio.CancelledError):
                await result

    with virtual_loop() as loop:
        loop.run_until_complete(stop())


def test_an_item_of_many_partitions_has_a_request_to_itself() -> None:
    async def large() -> None:
        peers = Peers()
        peers.may_answer.set()
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        sizes = (1, PARTITIONS_MAX + 1, 1, PARTITIONS_MAX - 1, 1)
        results = [batches.add(7, item, item, size) for item, size in enumerate(sizes)]
        assert await asyncio.gather(*results) == [0, 2, 4, 6, 8]
        assert [items for _, items in peers.requests] == [[0], [1], [2, 3], [4]]

    with virtual_loop() as loop:
        loop.run_until_complete(large())


def test_items_cancelled_during_their_request_get_no_result_and_others_do() -> None:
    async def answer_both(error: Exception | None) -> None:
        peers = Peers()
        peers.error = error
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        first, second = (asyncio.ensure_future(batches.add(7, key, key, 1)) for key in (1, 2))
        await turn(lambda: len(peers.requests) == 1)
        first.cancel()
        await asyncio.sleep(0)
        peers.may_answer.set()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert outcomes[1] == (error or 4)

    for error in (None, ValueError("broken")):
        with virtual_loop() as loop:
            loop.run_until_complete(answer_both(error))


def test_a_batch_whose_items_were_all_cancelled_is_no_request() -> None:
    async def cancel_at_once() -> None:
        peers = Peers()
        batches: RequestBatches[int, int] = RequestBatches(peers.answer)
        waiting = asyncio.ensure_future(batches.add(7, 1, 1, 1))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for _ in range(5):
            await asyncio.sleep(0)
        assert peers.requests == []

    with virtual_loop() as loop:
        loop.run_until_complete(cancel_at_once())

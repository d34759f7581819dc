"""Batches of coordinators' requests to other brokers, built like those of Kafka's marker and verification senders.

Items for one broker in one turn of the event loop share a request; those that do not fit follow in the next one. No
request has two items with the same key, or more than PARTITIONS_MAX partitions, unless a single item has more. While
REQUESTS_AT_ONCE requests to a broker are unanswered, further items wait for the next request. A burst of n items thus
costs far fewer than n requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

REQUESTS_AT_ONCE: Final = 2
"""Unanswered requests to one broker: one that it serves, and one that is being sent."""
PARTITIONS_MAX: Final = 500
"""Partitions of all items of one request. A marker costs the other broker one append per partition. At 0.1 ms each, a
full request takes 50 ms of its event loop, in steps. A request may have 100,000 elements at most.
"""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Waiting(Generic[ItemT, ResultT]):
    key: Hashable
    item: ItemT
    partition_count: int
    result: asyncio.Future[ResultT]


@dataclass(slots=True)
class _Peer(Generic[ItemT, ResultT]):
    """Items that wait for a request to one broker, and the tasks of the requests that were sent."""

    waiting: deque[_Waiting[ItemT, ResultT]] = field(default_factory=deque)
    requests: set[asyncio.Task[None]] = field(default_factory=set)
    is_scheduled: bool = False


class RequestBatches(Generic[ItemT, ResultT]):
    """Items of one kind for other brokers, collected into requests."""

    def __init__(self, send: Callable[[int, Sequence[ItemT]], Awaitable[Sequence[ResultT]]]) -> None:
        """`send` sends one request to a broker and returns a result for each item, in the items' order.

        If it raises, all items of the request raise the same exception.
        """
        self._send = send
        self._peers: dict[int, _Peer[ItemT, ResultT]] = {}

    def add(self, broker_id: int, key: Hashable, item: ItemT, partition_count: int) -> asyncio.Future[ResultT]:
        """Return the future of an item's result.

        Items with the same key never share a request, because the response identifies an item only by its key.

        An item of more than PARTITIONS_MAX partitions gets its own request.
        """
        loop = asyncio.get_running_loop()
        peer = self._peers.setdefault(broker_id, _Peer())
        result: asyncio.Future[ResultT] = loop.create_future()
        peer.waiting.append(_Waiting(key, item, partition_count, result))
        self._schedule(broker_id, peer)
        return result

    def stop(self) -> None:
        """Cancel all requests and all waiting items."""
        for peer in self._peers.values():
            for request in peer.requests:
                request.cancel()
            for each in peer.waiting:
                each.result.cancel()
        self._peers.clear()

    def _schedule(self, broker_id: int, peer: _Peer[ItemT, ResultT]) -> None:
        if peer.waiting and not peer.is_scheduled and len(peer.requests) < REQUESTS_AT_ONCE:
            peer.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_batch, broker_id)

    def _send_batch(self, broker_id: int) -> None:
        peer = self._peers.get(broker_id)
        if peer is None:  # stopped meanwhile
            return
        peer.is_scheduled = False
        batch = _take_batch(peer.waiting)
        if batch:
            request = asyncio.get_running_loop().create_task(self._request(broker_id, batch))
            peer.requests.add(request)
            request.add_done_callback(lambda done: self._answered(broker_id, done))
            self._schedule(broker_id, peer)

    def _answered(self, broker_id: int, request: asyncio.Task[None]) -> None:
        peer = self._peers.get(broker_id)
        if peer is None:
            return
        peer.requests.discard(request)
        if peer.waiting:
            self._schedule(broker_id, peer)
        elif not peer.requests:
            del self._peers[broker_id]

    async def _request(self, broker_id: int, batch: Sequence[_Waiting[ItemT, ResultT]]) -> None:
        try:
            results = await self._send(broker_id, [each.item for each in batch])
        except asyncio.CancelledError:
            for each in batch:
                each.result.cancel()
            raise
        except Exception as error:  # noqa: BLE001 any error belongs to the waiting items
            kept = error.with_traceback(None)  # the traceback would keep this frame and the batch
            for each in batch:
                if not each.result.done():
                    each.result.set_exception(kept)
            return
        for each, result in zip(batch, results, strict=True):
            if not each.result.done():
                each.result.set_result(result)


def _take_batch(waiting: deque[_Waiting[ItemT, ResultT]]) -> list[_Waiting[ItemT, ResultT]]:
    """Remove a batch from the head of the queue: at most PARTITIONS_MAX partitions and one item of each key.

    The batch has at least one item, unless all were cancelled. Cancelled items are dropped.
    """
    batch: list[_Waiting[ItemT, ResultT]] = []
    keys: set[Hashable] = set()
    partition_count = 0
    while waiting:
        first = waiting[0]
        if first.result.done():
            waiting.popleft()
            continue
        partition_count += first.partition_count
        if batch and (first.key in keys or partition_count > PARTITIONS_MAX):
            break
        keys.add(first.key)
        batch.append(waiting.popleft())
    return batch

"""Sends the markers of a decided transaction to the leaders of its partitions, until every one of them has it.

A partition whose topic is gone needs none. What cannot be written now is tried again after a pause, for as long as this
broker coordinates the transaction: a decision is never given up, or readers of committed records would wait for ever.
Where a later coordinator or producer epoch has been, only that one can end what is open: the transaction stays decided,
for everybody to see, and is tried again when it is loaded anew.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kwire.cluster.image import NO_LEADER, MetadataImage
from kwire.coordinator.answers import Answer
from kwire.coordinator.markers import Marker, Outcomes
from kwire.coordinator.transaction.states import TransactionState
from kwire.coordinator.transaction.transaction import TopicPartition, Transaction
from kwire.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.1

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A later coordinator or epoch has been there."""


class MarkerChannel(Protocol):
    """A way to the leaders of partitions."""

    def write(self, leader_id: int, marker: Marker, partitions: frozenset[TopicPartition]) -> Answer[Outcomes]:
        """Have a broker write a marker into partitions that it leads; what came of it, for each of them."""


@dataclass(slots=True, kw_only=True)
class _Ending:
    """A transaction whose markers are under way."""

    transaction: Transaction
    marker: Marker
    remaining: frozenset[TopicPartition]
    done: Callable[[], None]
    fenced: frozenset[TopicPartition] = frozenset()
    """Of those that remain, where a later coordinator or epoch has been."""


class Markers:
    """The endings that this broker has to see through; at most one for each transactional id."""

    def __init__(self, *, channel: MarkerChannel, image: Callable[[], MetadataImage]) -> None:
        self._channel = channel
        self._image = image
        self._endings: dict[str, _Ending] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, transaction: Transaction, *, coordinator_epoch: int, done: Callable[[], None]) -> None:
        """Write the markers of a decided transaction; done is called when all partitions have theirs."""
        marker = Marker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction.client_version,
        )
        ending = _Ending(transaction=transaction, marker=marker, remaining=transaction.partitions, done=done)
        self._endings[transaction.transactional_id] = ending
        self._go_on(ending)

    def with_remaining(self, transaction: Transaction) -> Transaction:
        """The transaction with only those partitions that still wait for their marker, if it is ending."""
        ending = self._endings.get(transaction.transactional_id)
        return transaction if ending is None else replace(transaction, partitions=ending.remaining)

    def forget(self, transactional_id: str) -> None:
        """Another broker coordinates this transaction now."""
        self._endings.pop(transactional_id, None)

    def stop(self) -> None:
        self._endings.clear()
        for task in self._tasks:
            task.cancel()

    def _go_on(self, ending: _Ending) -> None:
        """Send what remains; a task is made only if there is something to wait for."""
        later: list[Awaitable[Outcomes]] = []
        for leader_id, partitions in self._by_leader(ending).items():
            outcomes = self._channel.write(leader_id, ending.marker, partitions)
            if inspect.isawaitable(outcomes):
                later.append(outcomes)
            else:
                self._note(ending, outcomes)
        if not later and not ending.remaining - ending.fenced:
            self._come_to_rest(ending)
            return
        task = asyncio.get_running_loop().create_task(self._wait(ending, later))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self, ending: _Ending, later: list[Awaitable[Outcomes]]) -> None:
        for outcomes in later:
            self._note(ending, await outcomes)
        if ending.remaining - ending.fenced:
            await asyncio.sleep(RETRY_PAUSE_S)
        if self._endings.get(ending.transaction.transactional_id) is not ending:
            return
        if ending.remaining - ending.fenced:
            self._go_on(ending)
        else:
            self._come_to_rest(ending)

    def _by_leader(self, ending: _Ending) -> dict[int, frozenset[TopicPartition]]:
        """What remains, by the broker that is to be asked; partitions of topics that are gone no longer remain."""
        topics = self._image().topics
        by_leader: dict[int, set[TopicPartition]] = {}
        gone = set()
        for topic, index in sorted(ending.remaining - ending.fenced):  # a set's order is another one in each process
            image = topics.get(topic)
            if image is None or index >= len(image.partitions):
                gone.add((topic, index))
            elif (leader_id := image.partitions[index].leader) != NO_LEADER:
                by_leader.setdefault(leader_id, set()).add((topic, index))
        ending.remaining -= gone
        return {leader_id: frozenset(partitions) for leader_id, partitions in by_leader.items()}

    def _note(self, ending: _Ending, outcomes: Outcomes) -> None:
        settled = set()
        for partition, code in outcomes.items():
            if code is ErrorCode.NONE:
                settled.add(partition)
            elif code in _FENCED:
                logger.warning("%s-%d refused %s: %s", *partition, ending.marker, code.name)
                ending.fenced |= {partition}
            else:
                logger.debug("%s-%d does not take %s yet: %s", *partition, ending.marker, code.name)
        ending.remaining -= settled

    def _come_to_rest(self, ending: _Ending) -> None:
        """There is nothing to send any more: the transaction is complete, unless others keep it open."""
        if not ending.remaining:
            del self._endings[ending.transaction.transactional_id]
            ending.done()

"""Completion of decided transactions: sends the markers to the partition leaders until every partition has one.

A partition of a deleted topic needs no marker. Failed writes are retried after a pause for as long as this broker
coordinates the transaction: a decision is never dropped, or read_committed consumers would wait forever.

If a partition has received a later coordinator or producer epoch, it rejects this marker, and this broker stops sending
it there. The transaction then stays in PrepareCommit or PrepareAbort, which DescribeTransactions shows. When a
coordinator loads the transaction again, it sends the markers again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kwire.cluster.metadata.image import NO_LEADER, MetadataImage
from kwire.coordinator.answers import Answer
from kwire.coordinator.markers import Outcomes, TransactionMarker
from kwire.coordinator.transaction.states import TransactionState
from kwire.coordinator.transaction.transaction import TopicPartition, Transaction
from kwire.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.1

_REJECTED_FOR_GOOD = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Error codes of partitions that have received a later coordinator or producer epoch."""


class MarkerWriter(Protocol):
    """Interface to the partition leaders, on this or another broker, that write markers."""

    def write(
        self, leader_id: int, marker: TransactionMarker, partitions: frozenset[TopicPartition]
    ) -> Answer[Outcomes]:
        """Request that a broker writes a marker to partitions that it leads; return the result for each of them."""


@dataclass(slots=True, kw_only=True)
class _Ending:
    """Transaction whose markers are being written."""

    transaction: Transaction
    marker: TransactionMarker
    remaining: frozenset[TopicPartition]
    done: Callable[[], None]
    rejecting: frozenset[TopicPartition] = frozenset()
    """Remaining partitions that reject the marker: they have received a later coordinator or producer epoch."""


class PendingMarkers:
    """Transactions whose markers this broker must write; at most one for each transactional id."""

    def __init__(self, *, marker_writer: MarkerWriter, image: Callable[[], MetadataImage]) -> None:
        self._marker_writer = marker_writer
        self._image = image
        self._endings: dict[str, _Ending] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, transaction: Transaction, *, coordinator_epoch: int, done: Callable[[], None]) -> None:
        """Write the markers of a decided transaction; `done` is called when all partitions have one."""
        marker = TransactionMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction.client_version,
        )
        ending = _Ending(transaction=transaction, marker=marker, remaining=transaction.partitions, done=done)
        self._endings[transaction.transactional_id] = ending
        self._send_remaining(ending)

    def with_remaining(self, transaction: Transaction) -> Transaction:
        """Return the transaction; while its markers are being sent, with only the partitions that still need one."""
        ending = self._endings.get(transaction.transactional_id)
        return transaction if ending is None else replace(transaction, partitions=ending.remaining)

    def cancel(self, transactional_id: str) -> None:
        """Stop writing the markers of a transaction that another broker coordinates now."""
        self._endings.pop(transactional_id, None)

    def stop(self) -> None:
        self._endings.clear()
        for task in self._tasks:
            task.cancel()

    def _send_remaining(self, ending: _Ending) -> None:
        """Send the remaining markers; create a task only if there is something to wait for."""
        later: list[Awaitable[Outcomes]] = []
        for leader_id, partitions in self._by_leader(ending).items():
            outcomes = self._marker_writer.write(leader_id, ending.marker, partitions)
            if inspect.isawaitable(outcomes):
                later.append(outcomes)
            else:
                self._apply_results(ending, outcomes)
        if not later and not ending.remaining - ending.rejecting:
            self._finish_sending(ending)
            return
        task = asyncio.get_running_loop().create_task(self._wait(ending, later))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self, ending: _Ending, later: list[Awaitable[Outcomes]]) -> None:
        for outcomes in later:
            self._apply_results(ending, await outcomes)
        if ending.remaining - ending.rejecting:
            await asyncio.sleep(RETRY_PAUSE_S)
        if self._endings.get(ending.transaction.transactional_id) is not ending:
            return
        if ending.remaining - ending.rejecting:
            self._send_remaining(ending)
        else:
            self._finish_sending(ending)

    def _by_leader(self, ending: _Ending) -> dict[int, frozenset[TopicPartition]]:
        """Remove partitions of deleted topics from `remaining`, since they need no marker; return the others by leader.

        Partitions without a leader wait for the next attempt, and rejecting ones are left out.
        """
        topics = self._image().topics
        by_leader: dict[int, set[TopicPartition]] = {}
        deleted = set()
        for topic, index in sorted(ending.remaining - ending.rejecting):  # the order of a set differs between processes
            image = topics.get(topic)
            if image is None or index >= len(image.partitions):
                deleted.add((topic, index))
            elif (leader_id := image.partitions[index].leader) != NO_LEADER:
                by_leader.setdefault(leader_id, set()).add((topic, index))
        ending.remaining -= deleted
        return {leader_id: frozenset(partitions) for leader_id, partitions in by_leader.items()}

    def _apply_results(self, ending: _Ending, outcomes: Outcomes) -> None:
        written = set()
        for partition, code in outcomes.items():
            if code is ErrorCode.NONE:
                written.add(partition)
            elif code in _REJECTED_FOR_GOOD:
                logger.warning("%s-%d rejected %s: %s", *partition, ending.marker, code.name)
                ending.rejecting |= {partition}
            else:
                logger.debug("%s-%d has not accepted %s yet: %s", *partition, ending.marker, code.name)
        ending.remaining -= written

    def _finish_sending(self, ending: _Ending) -> None:
        """Stop sending markers: the transaction is complete, unless partitions that reject the marker remain."""
        if not ending.remaining:
            del self._endings[ending.transaction.transactional_id]
            ending.done()

"""Base of the clients of a history: leaders, coordinators, retries, and fetches without aborted records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from kwire.cluster.metadata.image import NO_LEADER
from kwire.protocol.control_records import decode_marker
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from kwire.protocol.records import decode_batch, iterate_headers
from kwire.simulation import ClusterBroker, Simulation
from tests.history.operations import ASSIGN, COMMITTED, Poll, Record
from tests.simulation.cluster_history import TOPIC, History
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.connections import Connections, Leader
from tests.support.requests import fetch_request

PATIENCE_SECONDS: Final = 12.0
RETRY_SECONDS: Final = 0.1
RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)  # fmt: skip
NOT_DONE: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS})
"""Error codes after which nothing was appended."""

Attempt = Callable[[], Awaitable[tuple[int, Any]]]

FETCH_BYTES: Final = (1 << 20, 1 << 20, 400)
"""Fetch sizes: with small ones, the last record read is far below the last stable offset."""


class RejectedError(Exception):
    """Raised if a broker rejects a request, or does not respond for too long."""

    def __init__(self, code: int, *, is_certain: bool) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = code
        self.is_certain = is_certain
        """True if the request certainly had no effect."""
        self.is_of_deposed = False
        """True if the error comes from a leader that may lack records which another one has acknowledged since."""


class Worker(Connections):
    """Client of a history."""

    patience_seconds = PATIENCE_SECONDS
    """Time until an operation is given up."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: Sequence[ClusterBroker],
        ledger: Ledger,
        history: History,
        name: str,
    ) -> None:
        super().__init__(simulation, brokers, name)
        self._ledger = ledger
        self._history = history
        self._leaders: dict[int, Leader] = {}
        self._epochs: dict[int, int] = {}
        """Newest leader epochs that this client has received."""
        self._coordinators: dict[tuple[str, int], int] = {}
        self._count = 0

    async def run(self, end: float) -> None:
        """Work until the end time."""
        raise NotImplementedError

    def number(self) -> int:
        """Return the number of a new operation."""
        self._ledger.operations += 1
        self._count += 1
        return self._count

    async def leader_of(self, index: int) -> Leader:
        """Return the leader of a partition. Raises OSError."""
        known = self._leaders.get(index)
        if known is None or known.epoch < self.known_epoch(index):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
            answer = await self.ask(self._anyone(), request, 12)
            self._leaders = {
                part.partition_index: Leader(part.leader_id, part.leader_epoch)
                for part in answer.topics[0].partitions
                if part.leader_id != NO_LEADER and self._is_news(part)
            }
        if index not in self._leaders:
            raise ConnectionError("nobody leads")
        return self._leaders[index]

    def _is_news(self, part: MetadataResponsePartition) -> bool:
        """Return True if the leader's epoch is not older than a known one, whose records it might lack (KIP-320)."""
        self.note_epoch(part.partition_index, part.leader_epoch)
        return part.leader_epoch == self.known_epoch(part.partition_index)

    def note_epoch(self, index: int, epoch: int) -> None:
        """Record a leader epoch that a response or a record contains."""
        self._epochs[index] = max(epoch, self.known_epoch(index))

    def known_epoch(self, index: int) -> int:
        """Return the newest leader epoch that this client has received, -1 for none."""
        return self._epochs.get(index, -1)

    async def coordinator(self, name: str, kind: int) -> int:
        """Return a coordinator. Raises OSError."""
        place = name, kind
        if place not in self._coordinators:
            self._coordinators[place] = await self.find_coordinator(name, kind)
        return self._coordinators[place]

    async def until(self, attempt: Attempt, *, seconds: float | None = None) -> Any:
        """Repeat an attempt that had no response or a retriable error. Raises RejectedError.

        `seconds` is the time until it is given up, `patience_seconds` by default.
        """
        given_up = self._simulation.now + (self.patience_seconds if seconds is None else seconds)
        code, is_certain = int(ErrorCode.REQUEST_TIMED_OUT), True
        while self._simulation.now < given_up:
            try:
                code, answer = await attempt()
            except OSError:
                is_certain = False
            else:
                if code == ErrorCode.NONE:
                    return answer
                if code not in RETRIABLE:
                    raise RejectedError(code, is_certain=False)
                is_certain = is_certain and code in NOT_DONE
            self._leaders.clear()
            self._coordinators.clear()
            await asyncio.sleep(RETRY_SECONDS)
        raise RejectedError(code, is_certain=is_certain)

    async def fetch(self, index: int, offset: int, level: str, mode: str = ASSIGN) -> tuple[list[Record], int] | None:
        """Return (records, next offset) of a partition from an offset; None without a response. Raises OSError."""
        leader = await self.leader_of(index)
        self.number()
        is_committed = level == COMMITTED
        request = fetch_request(
            "",
            offset,
            partition=index,
            topic_id=self._history.topic_id,
            leader_epoch=leader.epoch,
            isolation_level=int(is_committed),
            partition_max_bytes=self._random_source.pick(FETCH_BYTES),
        )
        poll = self._history.begin(Poll(process=self.name, level=level, mode=mode))
        response = await self.ask(leader.broker_id, request, 16)
        answer = response.responses[0].partitions[0] if response.responses else response
        if answer.error_code != ErrorCode.NONE:
            is_lost = answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            is_forgiven = (self._history.topic_id, index) in self._ledger.forgiven
            assert not is_lost or is_forgiven, f"R15: {TOPIC}-{index} has nothing at {offset}, up to where it was read"
            self._leaders.pop(index, None)
            return None
        aborted = answer.aborted_transactions if is_committed else None
        found, end = records_of(bytes(answer.records or b""), offset, aborted or [])
        self._ledger.aborted_named += len(aborted or [])
        for each in aborted or []:
            assert each.first_offset < end, f"T3: {TOPIC}-{index}: {each} is named to a reader of {offset} to {end}"
        poll.records = [(f"{TOPIC}-{index}", at, value.decode()) for at, value in found]
        self._history.end(poll)
        return poll.records, end


def records_of(data: bytes, offset: int, aborted: Sequence[Any]) -> tuple[list[tuple[int, bytes]], int]:
    """Return (offset, value) of the records from an offset without aborted ones, and their end offset."""
    waiting = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
    open_producers: set[int] = set()
    found = []
    end = offset
    for position, header in iterate_headers(data):
        end = max(end, header.next_offset)
        while waiting and waiting[-1][0] < header.next_offset:
            open_producers.add(waiting.pop()[1])
        batch = data[position : position + header.size_in_bytes]
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and not marker.is_commit:
                open_producers.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in open_producers:
            continue
        found += [(record.offset, record.value or b"") for record in decode_batch(batch) if record.offset >= offset]
    return found, end

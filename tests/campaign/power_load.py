"""Load on a broker during power cuts, and a ledger of its responses: records, committed offsets, topics.

Every worker has one request in flight, and records whether it got a response. Acknowledged requests must have taken
effect. Others may have taken effect; they are sent again after the power cut, and must not take effect twice.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol.records import decode_all
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, fetch, produce

KEPT = "kept"
"""Topic that keeps all records, in segments that roll by time and size."""
SHORT = "short"
"""Topic with short retention, which removes its old segments."""
GROUP = "cut"
PLACES = ((KEPT, 0), (KEPT, 1), (SHORT, 0))
EARLIEST, LATEST = -2, -1
GONE = {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes of a broker whose disk has just failed, or that is not ready yet."""


@dataclass(slots=True, kw_only=True)
class PartitionLedger:
    """Records that one idempotent producer sent to a partition, and the acknowledged ones."""

    topic: str
    partition: int
    random_source: random.Random
    problems: list[str]
    producer_id: int = -1
    sequence: int = 0
    next_number: int = 0
    pending: list[bytes] = field(default_factory=list)
    """Records that were sent and may not be stored."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Values by offset."""
    lost: int = 0

    def work(self, client: RawClient) -> bool:
        """Send a batch, the pending one first; return False if the broker cannot continue."""
        if self.producer_id < 0:
            answer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
            if answer.error_code:
                return self._rejected(answer.error_code)
            self.producer_id, self.sequence = answer.producer_id, 0
        if not self.pending:
            self.pending = [self._value() for _ in range(self.random_source.choice((1, 1, 2, 5)))]
        records = batch(*self.pending, producer_id=self.producer_id, producer_epoch=0, sequence=self.sequence)
        answer = produce(client, self.topic, records, partition=self.partition)
        if answer.error_code:
            return self._rejected(answer.error_code)
        for at, value in enumerate(self.pending):
            if self.acknowledged.setdefault(answer.base_offset + at, value) != value:
                self.problems.append(f"{self}: offset {answer.base_offset + at} was given twice")
        self.sequence += len(self.pending)
        self.pending = []
        return True

    def _value(self) -> bytes:
        self.next_number += 1
        size = self.random_source.choice((10, 100, 1000, 1000, 20_000))
        return b"%d " % self.next_number + b"x" * self.random_source.randrange(size)

    def _rejected(self, code: int) -> bool:
        if code not in GONE:
            self.problems.append(f"{self}: {ErrorCode(code).name} for sequence {self.sequence}")
        return False

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def check(self, client: RawClient, *, is_durable: bool) -> None:
        """Compare with the broker's records; without a flush for each batch, the end may be missing."""
        start, end = (self._offset(client, at) for at in (EARLIEST, LATEST))
        if start.error_code or end.error_code:
            self.problems.append(f"{self}: no offsets, {ErrorCode(start.error_code or end.error_code).name}")
            return
        found = self._stored(client, start.offset)
        if [*found] != [*range(start.offset, end.offset)]:
            self.problems.append(f"{self}: offsets {start.offset} to {end.offset} are not there one by one")
        if start.offset > 0 and self.topic == KEPT:
            self.problems.append(f"{self}: starts at {start.offset}")
        self.compare(found, start.offset, end.offset, is_durable=is_durable)

    def _offset(self, client: RawClient, timestamp: int) -> Any:
        asked = ListOffsetsPartition(partition_index=self.partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self.topic, partitions=[asked])
        return client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 10).topics[0].partitions[0]

    def compare(self, found: dict[int, bytes], start: int, end: int, *, is_durable: bool) -> None:
        missing = [offset for offset in self.acknowledged if offset >= max(start, end)]
        if missing and is_durable:
            self.problems.append(f"{self}: {len(missing)} acknowledged records lost from offset {min(missing)} on")
        self.lost += len(missing)
        for offset in missing:
            del self.acknowledged[offset]
        for offset, value in self.acknowledged.items():
            if offset >= start and found.get(offset) != value:
                self.problems.append(f"{self}: another record at the acknowledged offset {offset}")
        numbers = [int(value.partition(b" ")[0]) for value in found.values()]
        if numbers != sorted(set(numbers)):
            self.problems.append(f"{self}: doubled or out of order")
        self._settle_pending([found[offset] for offset in found if offset not in self.acknowledged], is_durable)
        if not is_durable:
            self.producer_id = -1  # its sequence numbers may be ahead of the broker's
            self.acknowledged |= found

    def _settle_pending(self, unanswered: list[bytes], is_durable: bool) -> None:
        """Check records after the acknowledged ones: they are the whole pending batch; send a durable one again."""
        if unanswered and unanswered != self.pending:
            self.problems.append(f"{self}: {len(unanswered)} records that no client had in flight")
        if unanswered and not is_durable:
            self.pending = []

    def _stored(self, client: RawClient, offset: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        while True:
            answer = fetch(client, self.topic, offset, partition=self.partition, partition_max_bytes=1 << 22)
            if answer.error_code:
                self.problems.append(f"{self}: cannot be read at {offset}, {ErrorCode(answer.error_code).name}")
                return found
            records = [record for record in decode_all(answer.records) if record.offset >= offset]
            if not records:
                return found
            for record in records:
                if record.offset in found:
                    self.problems.append(f"{self}: offset {record.offset} is there twice")
                found[record.offset] = record.value or b""
            offset = records[-1].offset + 1


@dataclass(slots=True, kw_only=True)
class CommitLedger:
    """Offsets that a group without members commits, in increasing order."""

    problems: list[str]
    sent: int = 0
    acknowledged: int = -1

    def work(self, client: RawClient) -> bool:
        self.sent += 1
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.sent, committed_metadata="" if self.sent % 2 else "noted"
        )
        topic = OffsetCommitRequestTopic(name=KEPT, partitions=[partition])
        answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 9)
        if answer.topics[0].partitions[0].error_code:
            return False
        self.acknowledged = self.sent
        return True

    def check(self, client: RawClient, *, is_durable: bool) -> None:
        asked = OffsetFetchRequestGroup(
            group_id=GROUP, topics=[OffsetFetchRequestTopics(name=KEPT, partition_indexes=[0])]
        )
        deadline = 500
        while (group := client.ask(OffsetFetchRequest(groups=[asked]), 9).groups[0]).error_code in GONE and deadline:
            deadline -= 1
            threading.Event().wait(0.01)  # the coordinator loads its log first
        if group.error_code:
            self.problems.append(f"offsets cannot be fetched: {ErrorCode(group.error_code).name}")
            return
        offset = group.topics[0].partitions[0].committed_offset
        lowest = self.acknowledged if is_durable else -1
        if not lowest <= offset <= self.sent:
            self.problems.append(f"committed offset {offset}, acknowledged {self.acknowledged}, last sent {self.sent}")
        self.acknowledged = offset


@dataclass(slots=True, kw_only=True)
class TopicLedger:
    """Topics that are created and deleted."""

    random_source: random.Random
    problems: list[str]
    made: int = 0
    topics: dict[str, UUID] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)

    def work(self, client: RawClient) -> bool:
        if self.topics and self.random_source.random() < 0.4:
            return self._delete(client, self.random_source.choice(sorted(self.topics)))
        name = f"topic-{self.made}"
        self.made += 1
        self.unanswered.add(name)
        (answer,) = client.ask(create_request(name, self.random_source.choice((1, 3))), 7).topics
        if answer.error_code:
            return False
        self.unanswered.discard(name)
        self.topics[name] = answer.topic_id
        return True

    def _delete(self, client: RawClient, name: str) -> bool:
        del self.topics[name]
        self.unanswered.add(name)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
        if client.ask(request, 6).responses[0].error_code:
            return False
        self.unanswered.discard(name)
        self.gone.add(name)
        return True

    def check(self, client: RawClient, *, is_durable: bool) -> None:
        """Check topics: the metadata log is flushed before a response, for any setting of the partitions."""
        found = {topic.name: topic.topic_id for topic in client.ask(MetadataRequest(topics=None), 12).topics}
        for name, topic_id in self.topics.items():
            if found.get(name) != topic_id:
                self.problems.append(f"{name} should have id {topic_id} and has {found.get(name)}")
        self.problems += [f"{name} was deleted and is there" for name in self.gone & found.keys()]
        unknown = found.keys() - self.topics.keys() - self.unanswered - {KEPT, SHORT, "__consumer_offsets"}
        self.problems += [f"no client requested {name}" for name in unknown - self.gone]
        for name in self.unanswered & found.keys():
            self.topics[name] = found[name]
        self.unanswered.clear()


Ledger = PartitionLedger | CommitLedger | TopicLedger


class Load:
    """All workers, each in its thread, until the broker has ended."""

    def __init__(self, bootstrap_server: str, ledgers: list[Ledger], failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(bootstrap_server, ledger), daemon=True) for ledger in ledgers
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, bootstrap_server: str, ledger: Ledger) -> None:
        pause = 0.001 if isinstance(ledger, PartitionLedger) else 0.02
        try:
            with RawClient(bootstrap_server) as client:
                while not self._stop.wait(pause):
                    if not ledger.work(client):
                        self._stop.wait(0.01)
        except OSError:
            return  # the broker was killed
        except Exception as error:  # noqa: BLE001 whatever it is, the campaign ends with it
            self._failed(error)

    def finish(self) -> None:
        """Wait until no request is in flight."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

"""Random requests about transactions and groups: mostly what a producer sends next, sometimes what it must not send.

A step comes from the script's own memory, which is the same for both brokers, and gets values from a broker's
responses: producer ids differ between the brokers, epochs and offsets should not.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
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
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.protocol.records import Record, encode_batch

IDS = ("one", "two", "three", "four")
GROUPS = ("readers", "others", "nobodys")
TOPICS = ("a", "b", "c")
PARTITIONS = 2
NO_TOPIC = "missing"
TIMESTAMP_MS = 1_700_000_000_000
TIMEOUT_MS = 600_000


@dataclass(slots=True)
class Known:
    """Values from one broker's responses: producer id and epoch by transactional id."""

    producers: dict[str, tuple[int, int]] = field(default_factory=dict)

    def producer(self, transactional_id: str) -> tuple[int, int]:
        return self.producers.get(transactional_id, (9_000_001, 0))


@dataclass(slots=True, kw_only=True)
class Step:
    number: int
    version: int
    build: Callable[[Known], Any]
    transactional_id: str = ""
    """Transactional id of the producer that the response describes."""
    settled: Callable[[Any], None] = lambda answer: None
    """Callback with kwire's response, which updates the script's memory."""


class Script:
    """Generator of one step after the other."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0
        self._epochs: dict[str, int] = {}
        self._sequences: dict[tuple[str, int, str, int], int] = {}
        """Next sequence number by transactional id, epoch, topic and partition."""
        self._uses_epochs = {name: index % 2 == 0 for index, name in enumerate(IDS)}
        """Transactional ids that mostly use the newer protocol."""

    def next(self) -> Step:
        self._number += 1
        makers = {
            self._initialise: 6,
            self._add_partitions: 10,
            self._add_many: 5,
            self._add_offsets: 5,
            self._produce: 26,
            self._end: 14,
            self._commit_in_transaction: 8,
            self._write_markers: 2,
            self._commit: 4,
            self._fetch_offsets: 6,
            self._fetch: 6,
            self._list_offsets: 4,
            self._describe: 3,
            self._list: 2,
            self._describe_producers: 4,
            self._find: 1,
            self._describe_group: 1,
            self._delete_group: 1,
            self._delete_records: 1,
            self._idempotent: 1,
        }
        return self._random.choices(list(makers), list(makers.values()))[0]()

    # --- choices

    def _often(self, share: float) -> bool:
        return self._random.random() < share

    def _id(self) -> str:
        return self._random.choice(IDS) if not self._often(0.02) else self._random.choice(("", "unknown"))

    def _topic(self) -> str:
        return self._random.choice(TOPICS) if not self._often(0.02) else NO_TOPIC

    def _partition(self) -> int:
        return self._random.randrange(PARTITIONS) if not self._often(0.02) else self._random.choice((7, -1))

    def _producer(self, transactional_id: str) -> Callable[[Known], tuple[int, int]]:
        """Return mostly the id's own producer; else one with a wrong epoch, another id's, or an unknown one."""
        random_source = self._random.random()
        if random_source < 0.86:
            return lambda known: known.producer(transactional_id)
        if random_source < 0.94:
            step = self._random.choice((-1, 1, -2))

            def wrong(known: Known) -> tuple[int, int]:
                producer_id, epoch = known.producer(transactional_id)
                return producer_id, max(-1, epoch + step)

            return wrong
        if random_source < 0.98:
            other = self._random.choice(IDS)
            return lambda known: known.producer(other)
        return lambda known: (9_000_001, 0)

    def _step(self, version: int, build: Callable[[Known], Any], **more: Any) -> Step:
        return Step(number=self._number, version=version, build=build, **more)

    def _version(
        self, low: int, high: int, *, newer: bool | None = None, newer_since: int = 0, other: float = 0.1
    ) -> int:
        """Return a random version, mostly on the transactional id's side of `newer_since`."""
        if newer is not None and not self._often(other):
            low, high = (newer_since, high) if newer else (low, newer_since - 1)
        return self._random.randint(low, high)

    # --- producers

    def _initialise(self) -> Step:
        name = self._id()
        version = self._version(0, 5)
        timeout_ms = TIMEOUT_MS if not self._often(0.05) else self._random.choice((0, -1, 900_001))
        expects = version >= 3 and self._often(0.5)
        producer = self._producer(name)

        def build(known: Known) -> Any:
            producer_id, epoch = producer(known) if expects else (-1, -1)
            return InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
            )

        return self._step(version, build, transactional_id=name)

    def _idempotent(self) -> Step:
        return self._step(
            self._version(0, 5), lambda known: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        )

    def _topics(self) -> list[tuple[str, list[int]]]:
        """Return some partitions by topic."""
        return [
            (topic, sorted({self._partition() for _ in range(self._random.randint(1, 2))}))
            for topic in sorted({self._topic() for _ in range(self._random.randint(1, 2))})
        ]

    def _add_partitions(self) -> Step:
        name, topics = self._id(), self._topics()
        producer = self._producer(name)

        def build(known: Known) -> Any:
            producer_id, epoch = producer(known)
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics
                ],
            )

        return self._step(self._version(0, 3), build)

    def _add_many(self) -> Step:
        names = self._random.sample(IDS, self._random.randint(1, 2))
        parts = [
            (name, self._producer(name), self._topics(), self._often(0.4) or not self._uses_epochs[name])
            for name in names
        ]

        def build(known: Known) -> Any:
            return AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id=name,
                        producer_id=producer(known)[0],
                        producer_epoch=producer(known)[1],
                        verify_only=verify_only,
                        topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics],
                    )
                    for name, producer, topics, verify_only in parts
                ]
            )

        return self._step(self._version(4, 5), build)

    def _add_offsets(self) -> Step:
        name, group = self._id(), self._random.choice(GROUPS)
        producer = self._producer(name)

        def build(known: Known) -> Any:
            producer_id, epoch = producer(known)
            return AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
            )

        return self._step(self._version(0, 4), build)

    def _produce(self) -> Step:
        name = self._random.choice(IDS)
        version = self._version(3, 12, newer=self._uses_epochs[name], newer_since=12)
        topic, index = self._topic(), self._partition()
        producer = self._producer(name)
        epoch_now = self._epochs.get(name, 0)
        key = (name, epoch_now, topic, index)
        expected = self._sequences.get(key, 0)
        sequence = expected if not self._often(0.08) else self._random.choice((0, expected + 1, max(0, expected - 1)))
        count = self._random.randint(1, 3)
        named = not self._often(0.03)
        if topic == NO_TOPIC or not 0 <= index < PARTITIONS:
            named = True  # docs/differences.md: the brokers check for the two faults in a different order
        values = [b"%d-%d" % (self._number, each) for each in range(count)]

        def build(known: Known) -> Any:
            producer_id, epoch = producer(known)
            batch = encode_batch(
                [Record(value=value, timestamp=TIMESTAMP_MS) for value in values],
                transactional=True,  # records outside of transactions differ: docs/differences.md
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            data = PartitionProduceData(index=index, records=bytes(batch))
            return ProduceRequest(
                transactional_id=name if named else None,
                acks=-1,
                timeout_ms=5000,
                topic_data=[TopicProduceData(name=topic, partition_data=[data])],
            )

        def settled(answer: Any) -> None:
            if answer.responses[0].partition_responses[0].error_code == 0 and sequence == expected:
                self._sequences[key] = expected + count

        return self._step(version, build, settled=settled)

    def _end(self) -> Step:
        name, commits = self._id(), self._often(0.6)
        producer = self._producer(name)
        newer = self._uses_epochs.get(name)

        def build(known: Known) -> Any:
            producer_id, epoch = producer(known)
            return EndTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commits
            )

        # On Kafka, a transaction that begins in one protocol and ends in the other may stay open for ever.
        version = self._version(0, 5, newer=newer, newer_since=5, other=0.0)
        return self._step(version, build, transactional_id=name)

    def learned(self, transactional_id: str, epoch: int) -> None:
        """Remember the producer's new epoch."""
        self._epochs[transactional_id] = epoch

    def _write_markers(self) -> Step:
        name, commits = self._random.choice(IDS), self._often(0.5)
        topics = self._topics()
        # After a marker with a later coordinator or producer epoch, Kafka's transactions there never end:
        # docs/differences.md.
        coordinator_epoch, version = self._random.choice((0, 0, 0, -1)), self._random.choice((0, 0, 2))
        older = self._often(0.2)

        def build(known: Known) -> Any:
            producer_id, epoch = known.producer(name)
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=max(0, epoch - older),
                transaction_result=commits,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics],
                coordinator_epoch=coordinator_epoch,
                transaction_version=version,
            )
            return WriteTxnMarkersRequest(markers=[marker])

        return self._step(self._version(1, 2), build)

    # --- offsets

    def _commit_in_transaction(self) -> Step:
        name, group = self._random.choice(IDS), self._random.choice(GROUPS)
        topic, index, offset = self._topic(), self._partition(), self._random.randrange(1000)
        version = self._version(0, 5, newer=self._uses_epochs[name], newer_since=5)
        producer, generation = self._producer(name), self._random.choice((-1, -1, -1, 3))
        metadata = self._random.choice(("", "text", None, "x" * 5000 if self._often(0.1) else "y"))

        def build(known: Known) -> Any:
            producer_id, epoch = producer(known)
            partition = TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            return TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=group,
                producer_id=producer_id,
                producer_epoch=epoch,
                generation_id=generation if version >= 3 else -1,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            )

        return self._step(version, build)

    def _commit(self) -> Step:
        group, topic, index = self._random.choice(GROUPS), self._topic(), self._partition()
        offset = self._random.randrange(1000)
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        )
        return self._step(self._version(2, 9), lambda known: request)

    def _fetch_offsets(self) -> Step:
        group, stable = self._random.choice(GROUPS), self._often(0.5)
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1]) for topic in TOPICS]
        asked = OffsetFetchRequestGroup(group_id=group, topics=None if self._often(0.3) else topics)
        request = OffsetFetchRequest(groups=[asked], require_stable=stable)
        return self._step(self._version(8, 9), lambda known: request)

    # --- reading

    def _fetch(self) -> Step:
        topic, index = self._random.choice(TOPICS), self._random.randrange(PARTITIONS)
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=self._random.choice((0, 1, 1)),
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        return self._step(self._version(4, 12), lambda known: request)

    def _list_offsets(self) -> Step:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=self._random.choice(timestamps))
                    for index in range(PARTITIONS)
                ],
            )
            # Lookups of timestamps below a log start differ: docs/differences.md.
            for topic, timestamps in (("a", (-1, -2, TIMESTAMP_MS)), ("b", (-1, TIMESTAMP_MS)), ("c", (-1, -2)))
        ]
        request = ListOffsetsRequest(isolation_level=self._random.choice((0, 1, 1)), topics=topics)
        return self._step(self._version(2, 7), lambda known: request)

    def _delete_records(self) -> Step:
        partition = DeleteRecordsPartition(partition_index=0, offset=self._random.randrange(30))
        topic = DeleteRecordsTopic(name="c", partitions=[partition])
        return self._step(2, lambda known: DeleteRecordsRequest(topics=[topic], timeout_ms=5000))

    # --- descriptions

    def _describe(self) -> Step:
        ids = [self._id() for _ in range(2)]
        return self._step(0, lambda known: DescribeTransactionsRequest(transactional_ids=list(dict.fromkeys(ids))))

    def _list(self) -> Step:
        states = self._random.choice(([], ["Ongoing"], ["Empty", "CompleteCommit"], ["Nothing"], ["ongoing"]))
        name = self._random.choice(IDS)
        filters = self._often(0.3)
        pattern = self._random.choice((None, "", "t.*", "o[a-z]+", "("))
        version = self._version(0, 2)

        def build(known: Known) -> Any:
            request = ListTransactionsRequest(
                state_filters=states, producer_id_filters=[known.producer(name)[0]] if filters else []
            )
            if version >= 2:
                request.transactional_id_pattern = pattern
            return request

        return self._step(version, build)

    def _describe_producers(self) -> Step:
        topics = [DescribeProducersTopicRequest(name=topic, partition_indexes=[0, 1]) for topic in TOPICS]
        return self._step(0, lambda known: DescribeProducersRequest(topics=topics))

    def _find(self) -> Step:
        keys = [self._random.choice(IDS), ""]
        return self._step(self._version(4, 6), lambda known: FindCoordinatorRequest(key_type=1, coordinator_keys=keys))

    def _describe_group(self) -> Step:
        return self._step(5, lambda known: DescribeGroupsRequest(groups=list(GROUPS)))

    def _delete_group(self) -> Step:
        group = self._random.choice(GROUPS)
        return self._step(2, lambda known: DeleteGroupsRequest(groups_names=[group]))

"""Rules for values of requests about records: Produce, Fetch, ListOffsets, epochs, deletion, producer ids."""

from compat_tests.differential.batches import records
from compat_tests.differential.drawing import Rule, Scope
from compat_tests.differential.lazy import Known
from compat_tests.differential.random_source import LARGEST_NAME, MISSING_ID, NO_ID, RandomSource
from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS

TRANSACTIONAL_IDS = ("tx-1", "tx-2", "")
BYTES_FOR_ALL = 1 << 20
BYTES_FOR_A_PART = 500
"""More than a small batch, so that part of the next batch follows it."""


def _records(random_source: RandomSource, scope: Scope) -> object:
    return records(random_source, scope["name"], scope["index"])


def _fetched_topic(random_source: RandomSource, _: Scope) -> str:
    """Return a topic whose records have no times or ids from the broker, and whose name kwire accepts in sessions."""
    name = random_source.topic()
    return name if len(name) < len(LARGEST_NAME) else "missing"


def _fetched_id(random_source: RandomSource, scope: Scope) -> object:
    """Return a topic id, but not the zero id: Kafka fails over it after its session has counted the request."""
    drawn = random_source.topic_id(scope["topic"])
    return MISSING_ID if drawn == NO_ID else drawn


def _session(random_source: RandomSource, _: Scope) -> object:
    if random_source.often(0.4):
        return 0
    return random_source.pick((Known(("session", random_source.randrange(3)), 0),), (1, -1), 0.05)


def _session_epoch(random_source: RandomSource, scope: Scope) -> object:
    session = scope["session_id"]
    if isinstance(session, Known):
        number = session.key[1]
        return random_source.one_of((80, Known(("session epoch", number), 0)), (6, 0), (6, -1), (4, 3), (2, 2**31 - 1))
    return random_source.one_of((55, -1), (35, 0), (5, 1), (3, -2))


def _timestamp(random_source: RandomSource, _: Scope) -> int:
    special = (-1, -1, -2, -2, -3, -4, -5, -6, -7)
    return random_source.choice((*special, 0, FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + 15, FIRST_TIMESTAMP_MS + 10**9))


def _transactional_id(random_source: RandomSource, _: Scope) -> str | None:
    return random_source.choice(TRANSACTIONAL_IDS) if random_source.often(0.03) else None


def _new_producer(random_source: RandomSource, _: Scope) -> object:
    """Return a key that stores the new producer id under this producer's number; its sequences start again at 0."""
    number = random_source.producer()
    for key in [key for key in random_source.sequences if key[0] == number]:
        del random_source.sequences[key]
    return Known(("producer id", number), -1)


def _new_epoch(random_source: RandomSource, scope: Scope) -> object:
    producer = scope["producer_id"]
    if not isinstance(producer, Known):
        return -1
    return random_source.one_of((80, Known(("producer epoch", producer.key[1]), -1)), (10, -1), (10, 5))


RULES: dict[str, Rule] = {
    "TopicProduceData.name": lambda random_source, _: random_source.topic(read_only=True),
    "PartitionProduceData.records": _records,
    "ProduceRequest.transactional_id": _transactional_id,
    "acks": lambda random_source, _: random_source.one_of((60, -1), (25, 1), (10, 0), (2, 2), (2, -2)),
    "timeout_ms": lambda random_source, _: 30_000,
    "ProduceRequest.timeout_ms": lambda random_source, _: random_source.choice((0, 1000, 30_000)),
    "FetchTopic.topic": _fetched_topic,
    "FetchTopic.topic_id": _fetched_id,
    "FetchForgottenTopic.topic": lambda random_source, _: random_source.topic(),
    "FetchRequest.cluster_id": lambda random_source, _: None,
    "FetchRequest.replica_id": lambda random_source, _: random_source.one_of((97, -1), (1, -2), (1, 7)),
    "FetchReplicaState.replica_id": lambda random_source, _: random_source.one_of((97, -1), (1, -2), (1, 7)),
    "FetchReplicaState.replica_epoch": lambda random_source, _: -1,
    "max_wait_ms": lambda random_source, _: random_source.choice((0, 0, 0, 3)),
    "min_bytes": lambda random_source, _: random_source.choice((0, 1, 1, 1, 100)),
    "FetchRequest.max_bytes": lambda random_source, _: random_source.choice(
        (2**31 - 1, 2**31 - 1, BYTES_FOR_ALL, BYTES_FOR_A_PART, 1, 0)
    ),
    "isolation_level": lambda random_source, _: random_source.one_of((60, 0), (36, 1)),
    "ListOffsetsRequest.isolation_level": lambda random_source, _: random_source.one_of(
        (60, 0), (36, 1), (2, 2), (2, -1)
    ),
    "session_id": _session,
    "session_epoch": _session_epoch,
    "fetch_offset": lambda random_source, _: random_source.offset(),
    "partition_max_bytes": lambda random_source, _: random_source.choice((1 << 20, 1 << 20, 400, 1, 0)),
    "log_start_offset": lambda random_source, _: random_source.choice((-1, -1, 0, 5)),
    "last_fetched_epoch": lambda random_source, _: random_source.one_of((90, -1), (5, 0), (3, 1)),
    "rack_id": lambda random_source, _: random_source.choice(("", "", "rack")),
    "current_leader_epoch": lambda random_source, _: random_source.leader_epoch(),
    "leader_epoch": lambda random_source, _: random_source.leader_epoch(),
    "ListOffsetsRequest.replica_id": lambda random_source, _: random_source.one_of((96, -1), (2, -2), (1, 7)),
    "ListOffsetsTopic.name": lambda random_source, _: random_source.topic(read_only=True),
    "ListOffsetsPartition.timestamp": _timestamp,
    "OffsetForLeaderEpochRequest.replica_id": lambda random_source, _: random_source.one_of((60, -1), (36, -2), (4, 7)),
    "OffsetForLeaderTopic.topic": lambda random_source, _: random_source.topic(read_only=True),
    "DeleteRecordsTopic.name": lambda random_source, _: random_source.topic(read_only=True),
    "DeleteRecordsPartition.offset": lambda random_source, _: random_source.choice((-1, 0, 1, 2, 4, 9, 20, -2, 10**6)),
    "InitProducerIdRequest.transactional_id": _transactional_id,
    "InitProducerIdRequest.producer_id": _new_producer,
    "InitProducerIdRequest.producer_epoch": _new_epoch,
    "transaction_timeout_ms": lambda random_source, _: random_source.choice((1000, 60_000, 0, -1, 900_000, 900_001)),
    "DescribeProducersTopicRequest.name": lambda random_source, _: random_source.topic(read_only=True),
    "state_filters": lambda random_source, _: random_source.several(
        lambda: random_source.choice(("Ongoing", "Empty", "ongoing", "What"))
    ),
    "producer_id_filters": lambda random_source, _: random_source.choice(([], [], [9_000_001], [-1])),
    "duration_filter": lambda random_source, _: random_source.choice((-1, 0, 1000)),
    "transactional_id_pattern": lambda random_source, _: random_source.choice((None, None, "", "tx.*", "((")),
    "transactional_ids": lambda random_source, _: random_source.several(
        lambda: random_source.choice(TRANSACTIONAL_IDS)
    ),
}

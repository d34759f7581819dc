"""Directories written by Apache Kafka: every codec, open and ended transactions, truncation, compaction, rolls."""

from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.confluent_kafka_client.client import admin, create_topic, offsets_of, producer, result, send_all
from compat_tests.harness.payloads import CODECS, TIMESTAMP_STEP_MS, Record, numbered, varied_records
from compat_tests.harness.reference import ApacheKafka
from compat_tests.harness.waiting import eventually
from compat_tests.log_format.observing import UNCOMMITTED, Observer
from compat_tests.log_format.random_data import DAY_MS, Partition, now_ms
from kwire.protocol.records import decode_all, iterate_headers

AT_ONCE = 5
CUT_AT = 33
ROUNDS = 6
ROLLED = {"segment_ms": 12 * TIMESTAMP_STEP_MS, "retention_ms": -1}
"""Settings that roll segments by record timestamps: a segment has a dozen records."""
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01, "delete_retention_ms": 0}
PARTITIONS = [
    *(Partition(f"codec-{codec}", 0) for codec in CODECS),
    Partition("transactions", 0),
    Partition("transactions", 1),
    Partition("cut", 0),
    Partition("compacted", 0),
    Partition("stamped", 0),
]


class WritingKafka(ApacheKafka):
    """Apache Kafka whose cleaner does not wait."""

    def write_settings(self) -> None:
        super().write_settings()
        with self.properties.open("a") as properties:
            properties.write("log.cleaner.backoff.ms=100\n")


def of_today(records: Sequence[Record]) -> list[Record]:
    """Return the records with timestamps of some minutes ago, because producer.id.expiration.ms expires older ones."""
    first = now_ms() - 600_000
    return [replace(each, timestamp_ms=first + at * TIMESTAMP_STEP_MS) for at, each in enumerate(records)]


def send(client, partition: Partition, records: Sequence[Record]) -> None:
    """Send the records in batches of a few."""
    for at in range(0, len(records), AT_ONCE):
        offsets_of(send_all(client, partition.topic, records[at : at + AT_ONCE], partition.index))


def write_everything(bootstrap: str, observer: Observer) -> list[object]:
    """Fill PARTITIONS. The caller must keep the result, because it holds a transaction open."""
    for codec in CODECS:
        create_topic(bootstrap, f"codec-{codec}", **ROLLED)
    create_topic(bootstrap, "transactions", 2, **ROLLED)
    create_topic(bootstrap, "cut", **ROLLED)
    create_topic(bootstrap, "stamped", message_timestamp_type="LogAppendTime")
    create_topic(bootstrap, "compacted", **ROLLED | COMPACTED)
    write_codecs(bootstrap)
    with_keys = of_today(numbered(200))
    for topic in ("cut", "stamped", "compacted"):
        send(producer(bootstrap, enable_idempotence=topic != "cut"), Partition(topic, 0), with_keys)
    observer.delete_records(Partition("cut", 0), CUT_AT)
    wait_for_the_cleaner(bootstrap, observer)
    clients = write_transactions(bootstrap)

    def markers() -> int:
        """Count the markers: Kafka answers EndTxn before it has written them."""
        data = [observer.all_bytes(Partition("transactions", index), UNCOMMITTED) for index in range(2)]
        return sum(header.is_control for each in data for _, header in iterate_headers(each))

    eventually(lambda: markers() == 2 * (ROUNDS * len(clients) - 1), "all markers")
    return clients


def write_codecs(bootstrap: str) -> None:
    for codec in CODECS:
        client = producer(bootstrap, enable_idempotence=True, compression_type=codec)
        send(client, Partition(f"codec-{codec}", 0), of_today(varied_records(60)))


def wait_for_the_cleaner(bootstrap: str, observer: Observer) -> None:
    """Wait until the cleaner has removed records and nothing changes any more."""
    compacted = Partition("compacted", 0)
    eventually(lambda: len(list(decode_all(observer.all_bytes(compacted, UNCOMMITTED)))) < 100, "compaction")
    resource = ConfigResource(ResourceType.TOPIC, "compacted")
    resource.add_incremental_config(
        ConfigEntry("min.compaction.lag.ms", str(365 * DAY_MS), incremental_operation=AlterConfigOpType.SET)
    )
    client = admin(bootstrap)
    result(client.incremental_alter_configs([resource]))

    def is_settled() -> bool:
        first = observer.all_bytes(compacted, UNCOMMITTED)
        return all(observer.all_bytes(compacted, UNCOMMITTED) == first for _ in range(10))

    eventually(is_settled, "the cleaner to rest")


def write_transactions(bootstrap: str) -> list[object]:
    """Write overlapping transactions of three producers to two partitions; a third of them aborts, one stays open."""
    clients = [
        producer(bootstrap, transactional_id=f"writer-{number}", transaction_timeout_ms=600_000) for number in range(3)
    ]
    for client in clients:
        client.init_transactions(20)
    records = of_today(numbered(120))
    for round_number in range(ROUNDS):
        for number, client in enumerate(clients):
            client.begin_transaction()
            for index in range(2):
                part = records[20 * round_number + 5 * number :][:AT_ONCE]
                offsets_of(send_all(client, "transactions", part, index))
        for number, client in enumerate(clients):
            if (round_number + number) % 3 == 0:
                client.abort_transaction(20)
            elif (round_number, number) != (ROUNDS - 1, 2):
                client.commit_transaction(20)
    return clients

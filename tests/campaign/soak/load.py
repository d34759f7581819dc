"""Load of a soak test with confluent-kafka: transactions, aborts, churning groups, short-lived topics, compaction."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

PARTITIONS = 6
PLAIN, TRANSACTIONAL, COMPACTED = "soak-plain", "soak-transactions", "soak-compacted"
SHORT_LIVED = "soak-short-"
GROUPS_MAX = 4
WAIT_SECONDS = 60
KINDS = ("aborts", "commits", "keyed records", "members", "offset commits", "records", "topics")
TOPIC_IDS = 4096
"""Number of topic ids that a node caches (kwire.protocol.wire): as many are sent at first to fill the cache."""


class Load:
    """Threads that work until `stop`; unexpected errors are added to `errors`."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._client = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []

    def start(self) -> None:
        admin = AdminClient({**self._client})
        compacted = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
        topics = [
            NewTopic(PLAIN, PARTITIONS, 3),
            NewTopic(TRANSACTIONAL, PARTITIONS, 3),
            NewTopic(COMPACTED, PARTITIONS, 3, config=compacted),
        ]
        for future in admin.create_topics(topics).values():
            future.result(WAIT_SECONDS)
        for address in str(self._client["bootstrap.servers"]).split(","):
            eventually(partial(_name_topic_ids, address), f"broker {address} answers", WAIT_SECONDS)
        work: list[Callable[[random.Random, int], None]] = [
            *[self._transactions] * 2,
            *[self._members] * 3,
            self._records,
            self._compacted,
            self._topics,
        ]
        for number, each in enumerate(work):
            random_source = random.Random(self._seed * 1000 + number)
            self._threads.append(threading.Thread(target=self._guard, args=(each, random_source, number), daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * WAIT_SECONDS)
            if thread.is_alive():
                self.errors.append("a client does not end")

    def note_what_was_not_done(self) -> None:
        """Record an error if some kind of work was never done, because the soak test would prove nothing."""
        self.errors += [f"no {what} in the whole run" for what in KINDS if not self.done[what]]

    def _guard(self, work: Callable[[random.Random, int], None], random_source: random.Random, number: int) -> None:
        while not self._stop.is_set():
            try:
                work(random_source, number)
            except KafkaException as error:
                cause = error.args[0]
                self.done[f"{work.__name__[1:]} began again"] += 1
                if isinstance(cause, KafkaError) and cause.code() == KafkaError._ALL_BROKERS_DOWN:
                    self.errors.append(str(cause))
            except Exception as error:  # noqa: BLE001 a thread that ends silently would be no load
                self.errors.append(f"{work.__name__[1:]}: {error!r}")
                self._stop.wait(1)

    def _transactions(self, random_source: random.Random, number: int) -> None:
        producer = Producer({**self._client, "transactional.id": f"soak-{number}"})
        producer.init_transactions(WAIT_SECONDS)
        while not self._stop.is_set():
            producer.begin_transaction()
            for _ in range(random_source.randrange(1, 20)):
                producer.produce(
                    TRANSACTIONAL, random_source.randbytes(200), partition=random_source.randrange(PARTITIONS)
                )
            if random_source.random() < 0.3:
                producer.abort_transaction(WAIT_SECONDS)
                self.done["aborts"] += 1
            else:
                producer.commit_transaction(WAIT_SECONDS)
                self.done["commits"] += 1
            self._stop.wait(0.05)

    def _members(self, random_source: random.Random, number: int) -> None:
        """Run a member from its join to its end."""
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"soak-{random_source.randrange(GROUPS_MAX)}",
                "auto.offset.reset": "latest",
                "isolation.level": random_source.choice(["read_committed", "read_uncommitted"]),
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([PLAIN, TRANSACTIONAL])
            for _ in range(random_source.randrange(5, 20)):
                if self._stop.is_set():
                    break
                if [each for each in consumer.consume(500, 0.5) if each.error() is None]:
                    consumer.commit(asynchronous=False)
                    self.done["offset commits"] += 1
        finally:
            consumer.close()
        self.done["members"] += 1

    def _records(self, random_source: random.Random, number: int) -> None:
        producer = Producer({**self._client, "enable.idempotence": True, "linger.ms": 5})
        for _ in range(random_source.randrange(50, 200)):
            if self._stop.is_set():
                break
            for _ in range(50):
                producer.produce(PLAIN, random_source.randbytes(1000), partition=random_source.randrange(PARTITIONS))
            assert producer.flush(WAIT_SECONDS) == 0, "records were not acknowledged"
            self.done["records"] += 50
            self._stop.wait(0.2)

    def _compacted(self, random_source: random.Random, number: int) -> None:
        producer = Producer({**self._client, "linger.ms": 5})
        while not self._stop.is_set():
            for _ in range(50):
                value = None if random_source.random() < 0.1 else random_source.randbytes(500)
                producer.produce(COMPACTED, value, key=str(random_source.randrange(500)))
            assert producer.flush(WAIT_SECONDS) == 0, "records were not acknowledged"
            self.done["keyed records"] += 50
            self._stop.wait(0.2)

    def _topics(self, random_source: random.Random, number: int) -> None:
        """Create topics, write to each once, and delete them; first delete those left by an earlier error."""
        admin = AdminClient({**self._client})
        producer = Producer({**self._client})
        left = [name for name in admin.list_topics(timeout=WAIT_SECONDS).topics if name.startswith(SHORT_LIVED)]
        for future in admin.delete_topics(left).values() if left else ():
            future.result(WAIT_SECONDS)
        while not self._stop.is_set():
            name = f"{SHORT_LIVED}{random_source.randrange(10**9)}"
            for future in admin.create_topics([NewTopic(name, 3, 3)]).values():
                future.result(WAIT_SECONDS)
            producer.produce(name, b"value")
            producer.flush(WAIT_SECONDS)
            for future in admin.delete_topics([name]).values():
                future.result(WAIT_SECONDS)
            self.done["topics"] += 1
            self._stop.wait(1)


def _name_topic_ids(address: str) -> bool:
    """Return False if the broker cannot be reached yet."""
    unknown = [MetadataRequestTopic(topic_id=uuid4(), name=None) for _ in range(TOPIC_IDS)]
    try:
        with RawClient(address) as client:
            return len(client.ask(MetadataRequest(topics=unknown), 12).topics) == TOPIC_IDS
    except ConnectionRefusedError:
        return False

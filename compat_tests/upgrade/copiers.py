"""Stock clients that consume, transform and produce in transactions, with the interface of a load's driver.

A member copies its topic into two others. Each transaction includes the offsets of its group. It returns what
read_committed consumers see there. It aborts some transactions and copies their records again. An error that a client
documents as retriable or abortable also fails the test: brokers that stop cleanly must not cause one.
"""

from contextlib import asynccontextmanager, contextmanager

from aiokafka import TopicPartition as Place
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from compat_tests.aiokafka_client import client as aiokafka_client
from compat_tests.cluster import drivers
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.confluent_kafka_client.transactional import by_place, read_to_end, transactional
from compat_tests.harness.waiting import eventually
from compat_tests.upgrade.loads import PARTITIONS

SECONDS = 60
LOOK_SECONDS = 0.2
IDLE_MS = 5000
READ_MAX = 500
"""Records in a transaction."""
ABORT_EACH = 4
"""Number of transactions of which one is aborted."""
COMMITTED = {"isolation_level": "read_committed"}


class Targets:
    """Two target topics, each with a copy; the second has each record in the partition after the record's own."""

    def __init__(self, bootstrap, source):
        self._bootstrap = bootstrap
        self.straight, self.shifted = (f"{source}-{name}" for name in ("straight", "shifted"))
        self.seen = []
        """(partition, value) of what was read from the first target during the restarts."""
        self._begun = 0
        admin = confluent_client.admin(bootstrap)
        for topic in (self.straight, self.shifted):
            confluent_client.result(admin.create_topics([NewTopic(topic, PARTITIONS, 3)]))

    def places(self, partition):
        """Return the topics and partitions to which a record goes."""
        return (self.straight, partition), (self.shifted, (partition + 1) % PARTITIONS)

    def next_commits(self):
        """Return True if the next transaction is to be committed."""
        self._begun += 1
        return self._begun % ABORT_EACH != 0

    def check(self, committed):
        """Check that each record was seen once and is in both copies once, and that the group has committed all."""
        values = {index: [value for partition, value in self.seen if partition == index] for index in range(PARTITIONS)}
        assert self._begun >= ABORT_EACH, "nothing was aborted"
        assert committed == [len(values[index]) for index in range(PARTITIONS)]
        for topic in (self.straight, self.shifted):
            found = by_place(read_to_end(self._bootstrap, [(topic, index) for index in range(PARTITIONS)]))
            for index in range(PARTITIONS):
                (place,) = (place for place in self.places(index) if place[0] == topic)
                assert found.get(place, []) == values[index], place


class ConfluentCopier(drivers.Confluent):
    name = "confluent-kafka-transactions"

    @contextmanager
    def member(self, bootstrap, topic, group):
        targets = Targets(bootstrap, topic)
        # librdkafka issue 5511: a client that waits for the group's coordinator retries only after a connection change.
        producer = transactional(bootstrap, f"copier-of-{topic}", connections_max_idle_ms=IDLE_MS)
        with (
            confluent_client.consumer(bootstrap, group_id=group, **COMMITTED, **drivers.QUICK) as source,
            confluent_client.consumer(bootstrap, **COMMITTED) as reader,
        ):
            source.subscribe([topic])
            reader.assign([TopicPartition(targets.straight, index, 0) for index in range(PARTITIONS)])

            def read(count):
                """Copy until `count` more records are seen; return (partition, value) of each."""
                found = []
                while len(found) < count:
                    messages = taken(source, READ_MAX)
                    if messages:
                        self._copy(producer, source, messages, targets)
                    found += [(each.partition(), each.value()) for each in taken(reader, count - len(found))]
                targets.seen += found
                return found

            yield read
            targets.check(eventually(lambda: self._committed(source, topic), "stable offsets"))

    @staticmethod
    def _copy(producer, source, messages, targets):
        producer.begin_transaction()
        for message in messages:
            for topic, partition in targets.places(message.partition()):
                producer.produce(topic, message.value(), partition=partition)
        producer.send_offsets_to_transaction(
            source.position(source.assignment()), source.consumer_group_metadata(), SECONDS
        )
        if targets.next_commits():
            producer.commit_transaction(SECONDS)
            return
        assert producer.flush(SECONDS) == 0
        producer.abort_transaction(SECONDS)
        for index in {message.partition() for message in messages}:
            first = min(message.offset() for message in messages if message.partition() == index)
            source.seek(TopicPartition(messages[0].topic(), index, first))

    @staticmethod
    def _committed(source, topic):
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        return [max(0, each.offset) for each in source.committed(places, 10)]


def taken(consumer, count):
    """Return up to `count` messages; none of them is an error."""
    messages = consumer.consume(num_messages=count, timeout=LOOK_SECONDS)
    assert [message.error() for message in messages if message.error()] == []
    return messages


class AiokafkaCopier(drivers.Aiokafka):
    name = "aiokafka-transactions"

    @contextmanager
    def member(self, bootstrap, topic, group):
        targets = Targets(bootstrap, topic)
        with self._loop() as run:
            context = self._clients(bootstrap, topic, group, targets)
            producer, source, reader = run(context.__aenter__()).result(SECONDS)

            async def read_on(count):
                found = []
                while len(found) < count:
                    records = await self._taken(source, READ_MAX)
                    if records:
                        await self._copy(producer, source, records, targets, group)
                    found += [(each.partition, each.value) for each in await self._taken(reader, count - len(found))]
                targets.seen += found
                return found

            async def committed():
                return [await source.committed(Place(topic, index)) or 0 for index in range(PARTITIONS)]

            yield lambda count: run(read_on(count)).result(SECONDS)
            # The client does not request stable offsets, so those of the last transaction may be missing.
            eventually(lambda: sum(run(committed()).result(SECONDS)) >= len(targets.seen), "the committed offsets")
            targets.check(run(committed()).result(SECONDS))
            run(context.__aexit__(None, None, None)).result(SECONDS)

    @staticmethod
    @asynccontextmanager
    async def _clients(bootstrap, topic, group, targets):
        async with (
            aiokafka_client.producer(bootstrap, transactional_id=f"copier-of-{topic}") as producer,
            aiokafka_client.consumer(bootstrap, topic, group_id=group, **COMMITTED, **drivers.QUICK) as source,
            aiokafka_client.consumer(bootstrap, **COMMITTED) as reader,
        ):
            places = [Place(targets.straight, index) for index in range(PARTITIONS)]
            reader.assign(places)
            await reader.seek_to_beginning(*places)
            yield producer, source, reader

    @staticmethod
    async def _taken(consumer, count):
        batches = await consumer.getmany(timeout_ms=int(LOOK_SECONDS * 1000), max_records=count)
        return [record for batch in batches.values() for record in batch]

    @staticmethod
    async def _copy(producer, source, records, targets, group):
        await producer.begin_transaction()
        sent = [
            await producer.send(topic, record.value, partition=partition)
            for record in records
            for topic, partition in targets.places(record.partition)
        ]
        behind = {Place(each.topic, each.partition): each.offset + 1 for each in records}
        await producer.send_offsets_to_transaction(behind, group)
        for each in sent:
            await each
        if targets.next_commits():
            await producer.commit_transaction()
            return
        await producer.abort_transaction()
        for where in behind:
            source.seek(where, min(each.offset for each in records if each.partition == where.partition))


COPIERS = (ConfluentCopier, AiokafkaCopier)

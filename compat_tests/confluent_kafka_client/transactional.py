"""Helpers for confluent-kafka's transactional producers that the tests of this folder share."""

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from compat_tests.confluent_kafka_client.client import consumer, producer, read
from compat_tests.harness.waiting import eventually

SECONDS = 30


def transactional(bootstrap, transactional_id, **settings):
    """Return a producer that is ready for its first transaction."""
    client = producer(bootstrap, transactional_id=transactional_id, **settings)
    client.init_transactions(SECONDS)
    return client


def run(client, transaction):
    """Run one transaction of a plan and commit or abort it."""
    client.begin_transaction()
    for (topic, partition), value in transaction.records:
        client.produce(topic, value, partition=partition)
    if transaction.commits:
        client.commit_transaction(SECONDS)
    else:
        assert client.flush(SECONDS) == 0
        client.abort_transaction(SECONDS)


def persist(client, write):
    """Repeat one transaction until it is committed, with the retries and aborts that the client's errors demand."""
    while True:
        try:
            client.begin_transaction()
            write()
            return until_answered(client.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            until_answered(client.abort_transaction)


def until_answered(end):
    """Commit or abort; repeat the request if its response was lost."""
    while True:
        try:
            return end(SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def read_places(bootstrap, places, count, isolation="read_committed"):
    """Read each partition until `count` values arrived; return the values by partition."""
    with consumer(bootstrap, isolation_level=isolation) as client:
        client.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
        return by_place(read(client, count, SECONDS))


def by_place(messages):
    values = {}
    for message in messages:
        values.setdefault((message.topic(), message.partition()), []).append(message.value())
    return values


def read_to_end(bootstrap, places):
    """Return every committed record of these partitions, once no transaction is open there."""
    wanted = {(topic, partition) for topic, partition in places}
    received = []
    with consumer(bootstrap, isolation_level="read_committed", enable_partition_eof=True) as client:
        eventually(lambda: all(is_settled(bootstrap, client, *place) for place in wanted), "ends of transactions")
        client.assign([TopicPartition(topic, partition, 0) for topic, partition in places])

        def at_the_end():
            for message in client.consume(num_messages=500, timeout=0.2):
                if message.error() is None:
                    received.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    wanted.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(message.error())
            return not wanted

        eventually(at_the_end, "the end of each partition", SECONDS)
    return received


def is_settled(bootstrap, reader, topic, partition):
    """Return True if the last stable offset has reached the high watermark."""
    where = TopicPartition(topic, partition)
    with consumer(bootstrap, isolation_level="read_uncommitted") as client:
        return reader.get_watermark_offsets(where, timeout=5) == client.get_watermark_offsets(where, timeout=5)


def written_so_far(bootstrap, places):
    """Return the end offsets of the partitions; they count uncommitted records and markers."""
    with consumer(bootstrap, isolation_level="read_uncommitted") as client:
        return sum(client.get_watermark_offsets(TopicPartition(*place), timeout=5)[1] for place in places)

"""confluent-kafka's transactional producers, as the tests of this folder share them."""

from confluent_kafka import KafkaException, TopicPartition

from compat_tests.confluent_kafka_client.client import consumer, producer, read

SECONDS = 30


def transactional(bootstrap, transactional_id, **settings):
    """A producer that is ready for its first transaction."""
    client = producer(bootstrap, transactional_id=transactional_id, **settings)
    client.init_transactions(SECONDS)
    return client


def run(client, transaction):
    """One transaction of a plan, with its end."""
    client.begin_transaction()
    for (topic, partition), value in transaction.records:
        client.produce(topic, value, partition=partition)
    if transaction.commits:
        client.commit_transaction(SECONDS)
    else:
        assert client.flush(SECONDS) == 0
        client.abort_transaction(SECONDS)


def persist(client, write):
    """One transaction until it is committed: tried again as the client's errors ask for it."""
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
    """An end whose answer got lost may be asked for again."""
    while True:
        try:
            return end(SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def read_places(bootstrap, places, count, isolation="read_committed"):
    """The values of each place, read until there are so many."""
    with consumer(bootstrap, isolation_level=isolation) as client:
        client.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
        values = {}
        for message in read(client, count, SECONDS):
            values.setdefault((message.topic(), message.partition()), []).append(message.value())
        return values

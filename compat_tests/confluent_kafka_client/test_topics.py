"""Unknown topics: requests create them automatically, or fail."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from compat_tests.confluent_kafka_client.client import (
    admin,
    consumer,
    offsets_of,
    producer,
    read,
    read_from,
    send_all,
)
from compat_tests.harness.payloads import Record, numbered
from compat_tests.harness.waiting import eventually


@pytest.mark.short
def test_producing_to_an_unknown_topic_creates_it(bootstrap, topic):
    assert offsets_of(send_all(producer(bootstrap), topic, [Record(value=b"first")])) == [0]
    assert [each.value() for each in read_from(bootstrap, topic, 1)] == [b"first"]
    assert len(admin(bootstrap).list_topics(topic, timeout=5).topics[topic].partitions) == 1


def test_a_consumer_of_an_unknown_topic_gets_unknown_topic_or_partition(bootstrap, topic, group):
    with consumer(bootstrap, group_id=group, allow_auto_create_topics=False) as client:
        client.subscribe([topic])
        message = eventually(lambda: client.poll(1), "an answer")
    assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin(bootstrap).list_topics(timeout=5).topics


def test_a_reader_may_create_its_topic_by_subscribing(bootstrap, topic, group):
    with consumer(
        bootstrap, group_id=group, allow_auto_create_topics=True, topic_metadata_refresh_interval_ms=200
    ) as client:
        client.subscribe([topic])
        eventually(lambda: client.poll(0.1) or topic in admin(bootstrap).list_topics(timeout=5).topics, "the topic")
        offsets_of(send_all(producer(bootstrap), topic, numbered(3)))
        eventually(lambda: client.assignment() or client.poll(0.1), "a share")
        assert [each.value() for each in read(client, 3)] == [b"0", b"1", b"2"]


def test_a_pattern_subscription_includes_topics_created_later(bootstrap, unique, group):
    prefix = unique("pattern")
    with consumer(bootstrap, group_id=group, topic_metadata_refresh_interval_ms=200) as client:
        offsets_of(send_all(producer(bootstrap), f"{prefix}-a", numbered(2)))
        client.subscribe([f"^{prefix}.*"])
        assert len(read(client, 2)) == 2
        client.commit(asynchronous=False)
        offsets_of(send_all(producer(bootstrap), f"{prefix}-b", numbered(3)))
        assert {each.topic() for each in read(client, 3)} == {f"{prefix}-b"}


def test_an_unknown_partition_is_rejected(bootstrap, topic):
    offsets_of(send_all(producer(bootstrap), topic, numbered(1)))
    client = producer(bootstrap)
    client.list_topics(topic, timeout=5)
    with pytest.raises((KafkaException, AssertionError)):
        offsets_of(send_all(client, topic, numbered(1), partition=5))


def test_an_invalid_name_is_rejected(bootstrap):
    ((_, error),) = send_all(producer(bootstrap), "no/such", numbered(1))
    assert error.name() == "TOPIC_EXCEPTION"

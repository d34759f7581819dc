"""Unknown topics: requests create them automatically, or fail."""

import pytest
from kafka.errors import InvalidTopicError

from compat_tests.kafka_python.client import admin, consumer, producer, read_from


@pytest.mark.short
def test_producing_to_an_unknown_topic_creates_it(bootstrap, topic):
    with producer(bootstrap) as client:
        assert client.send(topic, value=b"first").get(timeout=20).offset == 0
    assert [each.value for each in read_from(bootstrap, topic, 1)] == [b"first"]
    with admin(bootstrap) as client:
        assert len(client.describe_topics([topic])[0]["partitions"]) == 1


def test_a_client_that_forbids_creation_gets_none(bootstrap, topic):
    with consumer(bootstrap, allow_auto_create_topics=False) as client:
        assert not client.partitions_for_topic(topic)
    with admin(bootstrap) as client:
        assert topic not in client.list_topics()


def test_an_invalid_name_is_rejected_at_once(bootstrap):
    with consumer(bootstrap) as client:
        assert not client.partitions_for_topic("no/such")


def test_names_that_clash_in_metrics_are_rejected(bootstrap, unique):
    first = unique("a.b")
    with producer(bootstrap) as client:
        client.send(first, value=b"v").get(timeout=20)
    with admin(bootstrap) as client, pytest.raises(InvalidTopicError):
        client.create_topics({first.replace(".", "_"): {"num_partitions": 1}})

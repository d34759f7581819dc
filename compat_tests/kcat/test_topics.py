"""kcat's metadata listing, automatic creation of topics, and invalid topic names."""

import json

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.kcat.tool import consume, kcat, produce


def listed(bootstrap, *arguments):
    return json.loads(kcat(bootstrap, "-L", "-J", *arguments).stdout)


@pytest.mark.short
def test_the_cluster_and_a_topic_are_listed(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=3)
    answer = listed(bootstrap, "-t", topic)
    assert [(each["id"], each["name"]) for each in answer["brokers"]] == [(1, bootstrap)]
    assert answer["controllerid"] == 1
    (described,) = answer["topics"]
    assert described["topic"] == topic
    assert described["partitions"] == [
        {"partition": number, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]} for number in range(3)
    ]
    assert topic in {each["topic"] for each in listed(bootstrap)["topics"]}


@pytest.mark.short
def test_producing_to_an_unknown_topic_creates_it(bootstrap, topic):
    produce(bootstrap, topic, [(b"k", b"first")])
    assert [each.record.value for each in consume(bootstrap, topic)] == [b"first"]
    assert len(listed(bootstrap, "-t", topic)["topics"][0]["partitions"]) == 1


def test_reading_an_unknown_topic_ends_with_an_error_and_creates_none(bootstrap, topic):
    done = kcat(bootstrap, "-C", "-e", "-t", topic, "-X", "allow.auto.create.topics=false", check=False)
    assert done.returncode != 0
    assert topic not in {each["topic"] for each in listed(bootstrap)["topics"]}


def test_an_invalid_name_is_rejected(bootstrap):
    done = kcat(bootstrap, "-P", "-t", "no/such", "-k", "k", stdin=b"v\n", check=False)
    assert done.returncode != 0
    assert b"Invalid topic" in done.stderr


def test_an_unknown_partition_is_rejected(bootstrap, topic):
    create_topic(bootstrap, topic)
    done = kcat(bootstrap, "-C", "-e", "-t", topic, "-p", "7", "-o", "beginning", check=False)
    assert b"partition 7 does not exist" in done.stderr

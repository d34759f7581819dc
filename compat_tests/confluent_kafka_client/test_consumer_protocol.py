"""Consumer groups of KIP-848: members with group.protocol=consumer, which the broker assigns partitions to."""

from contextlib import ExitStack

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition

from compat_tests.confluent_kafka_client.client import (
    admin,
    consumer,
    create_topic,
    offsets_of,
    producer,
    read,
    result,
    send_all,
)
from compat_tests.confluent_kafka_client.member import member, wait_for_shares
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually

MODERN = {"group_protocol": "consumer"}
MEMBERS = 30
SECONDS = 60


@pytest.fixture
def wide_topic(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=4)
    return topic


@pytest.mark.short
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap, wide_topic, group, assignor
):
    settings = {"group_id": group, "group_remote_assignor": assignor} | MODERN
    with member(bootstrap, wide_topic, **settings) as first:
        wait_for_shares([first], [4])
        with member(bootstrap, wide_topic, **settings) as second:
            wait_for_shares([first, second], [2, 2])
            # Only the partitions that move are revoked.
            assert sum(len(partitions) for partitions in first.revoked) == 2
        wait_for_shares([first], [4])


def test_thirty_members_come_and_go(bootstrap, topic, group):
    create_topic(bootstrap, topic, partitions=2 * MEMBERS)
    settings = {"group_id": group} | MODERN
    with member(bootstrap, topic, **settings) as first:
        wait_for_shares([first], [2 * MEMBERS])
        with ExitStack() as others:
            joined = [others.enter_context(member(bootstrap, topic, **settings)) for _ in range(MEMBERS - 1)]
            wait_for_shares([first, *joined], [2] * MEMBERS, SECONDS)
        wait_for_shares([first], [2 * MEMBERS], SECONDS)


@pytest.mark.short
def test_a_new_member_resumes_at_the_committed_offset(bootstrap, topic, group):
    create_topic(bootstrap, topic)
    offsets_of(send_all(producer(bootstrap), topic, numbered(50)))
    with consumer(bootstrap, group_id=group, **MODERN) as client:
        client.subscribe([topic])
        read(client, 50)
        committed = TopicPartition(topic, 0, 20, metadata="a note")
        assert client.commit(offsets=[committed], asynchronous=False)[0].error is None
    with consumer(bootstrap, group_id=group, **MODERN) as client:
        client.subscribe([topic])
        assert [each.offset() for each in read(client, 30)] == list(range(20, 50))
        (found,) = client.committed([TopicPartition(topic, 0)], timeout=10)
        assert (found.offset, found.metadata) == (20, "a note")


def test_a_regular_expression_finds_topics_that_are_created_later(bootstrap, topic, group):
    create_topic(bootstrap, f"{topic}-one", partitions=2)
    with member(bootstrap, f"^{topic}-.*", group_id=group, **MODERN) as only:
        eventually(lambda: only.topics == {f"{topic}-one"}, "the first topic", SECONDS)
        create_topic(bootstrap, f"{topic}-two", partitions=2)
        eventually(lambda: only.topics == {f"{topic}-one", f"{topic}-two"}, "the second topic", SECONDS)


def test_a_static_member_comes_back_with_its_partitions(bootstrap, wide_topic, group):
    settings = {"group_id": group} | MODERN
    with member(bootstrap, wide_topic, group_instance_id="one", **settings) as first:
        with member(bootstrap, wide_topic, group_instance_id="two", **settings) as second:
            wait_for_shares([first, second], [2, 2])
            owned, before = second.assignment, list(first.revoked)
        with member(bootstrap, wide_topic, group_instance_id="two", **settings) as second:
            wait_for_shares([first, second], [2, 2])
            assert second.assignment == owned
            assert first.revoked == before


def test_a_classic_group_moves_to_the_consumer_protocol_and_back(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group) as classic:
        wait_for_shares([classic], [4])
        with member(bootstrap, wide_topic, group_id=group, **MODERN) as modern:
            wait_for_shares([classic, modern], [2, 2])
            client = admin(bootstrap)  # the admin client must exist until the response comes
            described = result(client.describe_consumer_groups([group]))
            assert described.type == ConsumerGroupType.CONSUMER
        wait_for_shares([classic], [4])


def test_the_group_is_described_with_its_members_and_their_shares(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group, client_id="described", **MODERN) as only:
        wait_for_shares([only], [4])
        client = admin(bootstrap)  # the admin client must exist until the response comes
        description = result(client.describe_consumer_groups([group]))
        assert (description.state, description.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
        assert description.partition_assignor == "uniform"
        (described,) = description.members
        assert (described.client_id, described.member_id) == ("described", only.member_id)
        assert {each.partition for each in described.assignment.topic_partitions} == set(range(4))

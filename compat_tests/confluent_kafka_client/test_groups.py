"""Consumer groups: eager and cooperative rebalances, committed offsets, static members."""

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException, TopicPartition

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


@pytest.fixture
def wide_topic(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=4)
    return topic


@pytest.mark.short
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap, wide_topic, group, strategy
):
    settings = {"group_id": group, "partition_assignment_strategy": strategy}
    with member(bootstrap, wide_topic, **settings) as first:
        wait_for_shares([first], [4])
        with member(bootstrap, wide_topic, **settings) as second:
            wait_for_shares([first, second], [2, 2])
            lost = [partition for partitions in first.revoked for partition in partitions]
            # An eager member revokes all its partitions; a cooperative member only those that move.
            assert len(lost) == (2 if strategy == "cooperative-sticky" else 4)
        wait_for_shares([first], [4])


def test_three_members_come_and_go_together(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group) as first:
        with member(bootstrap, wide_topic, group_id=group) as second, member(
            bootstrap, wide_topic, group_id=group
        ) as third:  # fmt: skip
            eventually(lambda: sorted(len(each.assignment) for each in (first, second, third)) == [1, 1, 2], "shares")
        wait_for_shares([first], [4])


@pytest.mark.short
def test_a_new_member_resumes_at_the_committed_offset(bootstrap, topic, group):
    create_topic(bootstrap, topic)
    offsets_of(send_all(producer(bootstrap), topic, numbered(50)))
    with consumer(bootstrap, group_id=group) as client:
        client.subscribe([topic])
        read(client, 50)
        committed = TopicPartition(topic, 0, 20, metadata="a note")
        assert client.commit(offsets=[committed], asynchronous=False)[0].error is None
    with consumer(bootstrap, group_id=group) as client:
        client.subscribe([topic])
        assert [each.offset() for each in read(client, 30)] == list(range(20, 50))
        (found,) = client.committed([TopicPartition(topic, 0)], timeout=10)
        assert (found.offset, found.metadata) == (20, "a note")


def test_an_offset_is_committed_without_joining_the_group(bootstrap, topic, group):
    create_topic(bootstrap, topic, partitions=2)
    with consumer(bootstrap, group_id=group) as client:
        client.commit(offsets=[TopicPartition(topic, 1, 7)], asynchronous=False)
        found = client.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=10)
    assert [each.offset for each in found] == [-1001, 7]


def test_a_static_member_comes_back_with_its_partitions(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group, group_instance_id="one") as first:
        with member(bootstrap, wide_topic, group_id=group, group_instance_id="two") as second:
            wait_for_shares([first, second], [2, 2])
            owned, before = second.assignment, list(first.revoked)
        with member(bootstrap, wide_topic, group_id=group, group_instance_id="two") as second:
            wait_for_shares([first, second], [2, 2])
            assert second.assignment == owned
            assert first.revoked == before


def test_a_second_static_member_of_the_same_name_fences_the_first(bootstrap, wide_topic, group):
    with consumer(bootstrap, group_id=group, group_instance_id="one", heartbeat_interval_ms=200) as first:
        first.subscribe([wide_topic])
        eventually(lambda: first.poll(0.1) or len(first.assignment()) == 4, "the partitions")
        with member(bootstrap, wide_topic, group_id=group, group_instance_id="one") as second:
            wait_for_shares([second], [4])

            def fenced():
                message = first.poll(0.1)
                return (
                    message is not None
                    and message.error()
                    and message.error().name() in {"_FATAL", "FENCED_INSTANCE_ID"}
                )

            eventually(fenced, "the first member is fenced")


def test_the_group_is_described_with_its_members_and_their_shares(bootstrap, wide_topic, group):
    with member(
        bootstrap, wide_topic, group_id=group, client_id="described", partition_assignment_strategy="range"
    ) as only:
        wait_for_shares([only], [4])
        client = admin(bootstrap)  # the admin client must exist until the response comes
        description = result(client.describe_consumer_groups([group]))
        assert description.state == ConsumerGroupState.STABLE
        assert description.partition_assignor == "range"
        assert description.coordinator.id == 1
        (described,) = description.members
        assert (described.client_id, described.host) == ("described", "/127.0.0.1")
        assert described.member_id == only.member_id
        assert {(each.topic, each.partition) for each in described.assignment.topic_partitions} == {
            (wide_topic, partition) for partition in range(4)
        }


def test_an_active_group_is_not_deleted_nor_moved(bootstrap, wide_topic, group):
    from confluent_kafka import ConsumerGroupTopicPartitions

    with member(bootstrap, wide_topic, group_id=group) as only:
        wait_for_shares([only], [4])
        client = admin(bootstrap)
        with pytest.raises(KafkaException) as rejected:
            result(client.delete_consumer_groups([group]))
        assert rejected.value.args[0].name() == "NON_EMPTY_GROUP"
        move = ConsumerGroupTopicPartitions(group, [TopicPartition(wide_topic, 0, 1)])
        answer = result(client.alter_consumer_group_offsets([move]))
        assert answer.topic_partitions[0].error.name() == "UNKNOWN_MEMBER_ID"

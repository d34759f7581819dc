"""Consumer groups: assignment of partitions, members that join and leave, committed offsets, static members."""

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from compat_tests.harness.members import QUICK
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import admin, consumer, create_topic, producer, read, send_all
from compat_tests.kafka_python.member import member, wait_for_shares


@pytest.fixture
def wide_topic(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=4)
    return topic


@pytest.mark.short
@pytest.mark.parametrize("assignor", [RangePartitionAssignor, CooperativeStickyAssignor])
def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap, wide_topic, group, assignor
):
    settings = {"group_id": group, "partition_assignment_strategy": (assignor,)}
    with member(bootstrap, wide_topic, **settings) as first:
        wait_for_shares([first], [4])
        with member(bootstrap, wide_topic, **settings) as second:
            wait_for_shares([first, second], [2, 2])
        wait_for_shares([first], [4])


@pytest.mark.short
def test_a_new_member_resumes_at_the_committed_offset(bootstrap, topic, group):
    create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    with producer(bootstrap) as client:
        send_all(client, topic, numbered(50))
    with consumer(bootstrap, topic, group_id=group, **QUICK) as client:
        read(client, 50)
        client.commit({where: OffsetAndMetadata(20, "a note", 0)})
        assert client.committed(where) == 20
    with consumer(bootstrap, topic, group_id=group, **QUICK) as client:
        assert [each.offset for each in read(client, 30)] == list(range(20, 50))
        assert client.committed(where, metadata=True) == OffsetAndMetadata(20, "a note", 0)


def test_automatic_commits_are_found_by_the_next_member(bootstrap, topic, group):
    create_topic(bootstrap, topic)
    settings = QUICK | {"group_id": group, "enable_auto_commit": True, "auto_commit_interval_ms": 100}
    with producer(bootstrap) as client:
        send_all(client, topic, numbered(30))
        with consumer(bootstrap, topic, **settings) as reader:
            read(reader, 30)
            eventually(
                lambda: reader.poll(timeout_ms=50) or reader.committed(TopicPartition(topic, 0)) == 30, "the commit"
            )
        send_all(client, topic, numbered(5, start=30))
    with consumer(bootstrap, topic, **settings) as reader:
        assert [each.offset for each in read(reader, 5)] == [30, 31, 32, 33, 34]


def test_a_static_member_comes_back_without_a_rebalance(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group, group_instance_id="one") as first:
        with member(bootstrap, wide_topic, group_id=group, group_instance_id="two") as second:
            wait_for_shares([first, second], [2, 2])
            owned, generation = second.assignment, second.generation
        with member(bootstrap, wide_topic, group_id=group, group_instance_id="two") as second:
            wait_for_shares([first, second], [2, 2])
            assert (second.assignment, second.generation) == (owned, generation)
            assert first.generation == generation


def test_a_silent_member_is_expelled_after_its_session_timeout(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group) as first:
        with member(
            bootstrap, wide_topic, group_id=group, group_instance_id="silent", session_timeout_ms=2000
        ) as second:
            wait_for_shares([first, second], [2, 2])
        # A static member sends no LeaveGroup when it closes: it leaves only by its session timeout.
        assert len(first.assignment) == 2
        wait_for_shares([first], [4])


def test_the_group_is_described_with_its_members_and_their_shares(bootstrap, wide_topic, group):
    with member(bootstrap, wide_topic, group_id=group, client_id="described") as only, admin(bootstrap) as client:
        wait_for_shares([only], [4])
        description = client.describe_groups([group])[group]
    assert (description["error"], description["group_state"]) == (None, "Stable")
    assert (description["protocol_type"], description["protocol_data"]) == ("consumer", "range")
    (described,) = description["members"]
    assert described["client_id"] == "described"
    assert described["client_host"] == "/127.0.0.1"
    (assigned,) = described["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], sorted(assigned["partitions"])) == (wide_topic, [0, 1, 2, 3])

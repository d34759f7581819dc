"""Consumer groups: assignment of partitions, committed offsets, static members."""

from contextlib import AsyncExitStack

import pytest
from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from compat_tests.aiokafka_client.client import admin, consumer, create_topic, holds, producer, read, send_all
from compat_tests.harness.payloads import numbered

QUICK = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}


async def shares(members, expected):
    """Wait until the members own all partitions without overlap, in these numbers."""

    def shared():
        assigned = [each.assignment() for each in members]
        return [len(each) for each in assigned] == expected and len(frozenset().union(*assigned)) == sum(expected)

    await holds(shared, f"partitions shared as {expected}", 40)


@pytest.mark.short
@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor])
async def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap, topic, group, assignor
):
    await create_topic(bootstrap, topic, partitions=4)
    settings = QUICK | {"group_id": group, "partition_assignment_strategy": (assignor,)}
    async with consumer(bootstrap, topic, **settings) as first:
        await shares([first], [4])
        async with consumer(bootstrap, topic, **settings) as second:
            await shares([first, second], [2, 2])
        await shares([first], [4])


@pytest.mark.short
async def test_a_new_member_resumes_at_the_committed_offset(bootstrap, topic, group):
    await create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    async with producer(bootstrap) as client:
        await send_all(client, topic, numbered(50))
    async with consumer(bootstrap, topic, group_id=group, **QUICK) as client:
        await read(client, 50)
        await client.commit({where: (20, "a note")})
        assert await client.committed(where) == 20
    async with consumer(bootstrap, topic, group_id=group, **QUICK) as client:
        assert [each.offset for each in await read(client, 30)] == list(range(20, 50))
    async with admin(bootstrap) as client:
        assert await client.list_consumer_group_offsets(group) == {where: OffsetAndMetadata(20, "a note")}
        unknown = TopicPartition(topic, 9)
        found = await client.list_consumer_group_offsets(group, partitions=[where, unknown])
        assert {each: found[each].offset for each in found} == {where: 20, unknown: -1}


async def test_automatic_commits_are_found_by_the_next_member(bootstrap, topic, group):
    await create_topic(bootstrap, topic)
    settings = QUICK | {"group_id": group, "enable_auto_commit": True}
    async with producer(bootstrap) as client:
        await send_all(client, topic, numbered(30))
        async with consumer(bootstrap, topic, **settings) as reader:
            await read(reader, 30)
        await send_all(client, topic, numbered(5, start=30))
    async with consumer(bootstrap, topic, **settings) as reader:
        assert [each.offset for each in await read(reader, 5)] == [30, 31, 32, 33, 34]


async def test_a_static_member_comes_back_with_its_partitions(bootstrap, topic, group):
    await create_topic(bootstrap, topic, partitions=4)
    settings = QUICK | {"group_id": group}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(consumer(bootstrap, topic, group_instance_id="one", **settings))
        async with consumer(bootstrap, topic, group_instance_id="two", **settings) as second:
            await shares([first, second], [2, 2])
            owned = second.assignment()
        async with consumer(bootstrap, topic, group_instance_id="two", **settings) as second:
            await shares([first, second], [2, 2])
            assert second.assignment() == owned


async def test_groups_are_listed_and_described(bootstrap, topic, group):
    await create_topic(bootstrap, topic, partitions=2)
    async with consumer(bootstrap, topic, group_id=group, client_id="described", **QUICK) as member:
        await shares([member], [2])
        async with admin(bootstrap) as client:
            assert (group, "consumer") in {each[:2] for each in await client.list_consumer_groups()}
            (answer,) = await client.describe_consumer_groups([group])
            assert await client.find_coordinator(group) == 1
    (described,) = answer.to_object()["groups"]
    assert (described["error_code"], described["group"], described["state"]) == (0, group, "Stable")
    assert [each["client_id"] for each in described["members"]] == ["described"]

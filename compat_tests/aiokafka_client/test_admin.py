"""The admin client: topics, partitions, configurations and records, with their errors."""

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from compat_tests.aiokafka_client.client import admin, consumer, create_topic, holds, producer, read_from, send_all
from compat_tests.harness.payloads import numbered


async def topic_config(client, topic, *names):
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names))
    (answer,) = await client.describe_configs([resource], include_synonyms=True)
    ((error, _, _, name, entries),) = answer.resources
    assert (error, name) == (0, topic)
    return {entry[0]: entry[1:] for entry in entries}


@pytest.mark.short
async def test_a_topic_is_created_described_and_deleted(bootstrap, topic):
    await create_topic(bootstrap, topic, partitions=3)
    async with admin(bootstrap) as client:
        (described,) = await client.describe_topics([topic])
        assert (described["error_code"], described["is_internal"]) == (0, False)
        assert sorted((each["partition"], each["leader"]) for each in described["partitions"]) == [
            (0, 1),
            (1, 1),
            (2, 1),
        ]
        assert topic in await client.list_topics()
        answer = await client.delete_topics([topic])
        assert [each[:2] for each in answer.topic_error_codes] == [(topic, 0)]

        async def gone():
            return topic not in await client.list_topics()

        await holds(gone, "the topic is gone")


async def test_the_cluster_is_described(bootstrap):
    async with admin(bootstrap) as client:
        described = await client.describe_cluster()
    assert described["controller_id"] == 1
    assert [(each["node_id"], each["host"]) for each in described["brokers"]] == [(1, "127.0.0.1")]
    assert len(described["cluster_id"]) == 22


async def test_partitions_are_added(bootstrap, topic):
    await create_topic(bootstrap, topic)
    async with admin(bootstrap) as client:
        await client.create_partitions({topic: NewPartitions(3)})
        with pytest.raises(InvalidPartitionsError):
            await client.create_partitions({topic: NewPartitions(2)})
        with pytest.raises(UnknownTopicOrPartitionError):
            await client.create_partitions({topic + "-unknown": NewPartitions(2)})
    async with producer(bootstrap) as client:
        await send_all(client, topic, numbered(4), partition=2)
    assert len(await read_from(bootstrap, topic, 4, partition=2)) == 4


@pytest.mark.short
async def test_configurations_are_replaced_as_a_whole(bootstrap, topic):
    await create_topic(bootstrap, topic, retention_ms=60_000)
    async with admin(bootstrap) as client:
        before = await topic_config(client, topic, "retention.ms")
        assert before["retention.ms"][:3] == ("60000", False, 1)
        (answer,) = await client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "2097152"})]
        )
        assert [each[0] for each in answer.resources] == [0]

        async def replaced():
            found = await topic_config(client, topic, "retention.ms", "segment.bytes")
            return (found["retention.ms"][0], found["segment.bytes"][0]) == ("604800000", "2097152")

        await holds(replaced, "the new values")
        (answer,) = await client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "soon"})]
        )
        assert [each[0] for each in answer.resources] == [40]


@pytest.mark.short
async def test_deleted_records_move_the_start_of_the_log(bootstrap, topic):
    await create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    async with producer(bootstrap) as client:
        await send_all(client, topic, numbered(20))
    async with admin(bootstrap) as client:
        assert await client.delete_records({where: RecordsToDelete(before_offset=12)}) == {where: 12}
        with pytest.raises(OffsetOutOfRangeError):
            await client.delete_records({where: RecordsToDelete(before_offset=1000)})
    async with consumer(bootstrap) as client:
        assert await client.beginning_offsets([where]) == {where: 12}
    assert [each.offset for each in await read_from(bootstrap, topic, 8)] == list(range(12, 20))


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("a/b", {}, 17),
        ("", {}, 17),
        (None, {"num_partitions": 0}, 37),
        (None, {"replication_factor": 3}, 38),
        (None, {"topic_configs": {"no.such.config": "1"}}, 40),
        (None, {"topic_configs": {"retention.ms": "soon"}}, 40),
    ],
)
async def test_impossible_topics_are_rejected_and_not_made(bootstrap, topic, name, options, code):
    name = topic if name is None else name
    wanted = {"num_partitions": 1, "replication_factor": 1} | options
    async with admin(bootstrap) as client:
        answer = await client.create_topics([NewTopic(name, **wanted)])
        assert [error[:2] for error in answer.topic_errors] == [(name, code)]
        assert name not in await client.list_topics()


async def test_existing_and_unknown_topics_are_rejected(bootstrap, topic):
    async with admin(bootstrap) as client:
        answer = await client.delete_topics([topic])
        assert [each[:2] for each in answer.topic_error_codes] == [(topic, 3)]
        await create_topic(bootstrap, topic)
        answer = await client.create_topics([NewTopic(topic, 1, 1)])
        assert [error[:2] for error in answer.topic_errors] == [(topic, 36)]
        answer = await client.create_topics([NewTopic(topic + "-checked", 1, 1)], validate_only=True)
        assert [error[1] for error in answer.topic_errors] == [0]
        assert topic + "-checked" not in await client.list_topics()

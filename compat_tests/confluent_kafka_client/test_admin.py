"""The admin client: topics, partitions, configurations, records and groups, with their errors."""

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from compat_tests.confluent_kafka_client.client import (
    admin,
    consumer,
    create_topic,
    offsets_of,
    producer,
    read,
    read_from,
    result,
    send_all,
)
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually


@pytest.fixture
def client(bootstrap):
    return admin(bootstrap)


def rejection(futures):
    with pytest.raises(KafkaException) as rejected:
        result(futures)
    return rejected.value.args[0].name()


def topic_config(client, topic):
    return result(client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))


def change(client, topic, *changes):
    entries = [ConfigEntry(name, value, incremental_operation=operation) for name, operation, value in changes]
    return client.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)]
    )  # fmt: skip


@pytest.mark.short
def test_a_topic_is_created_described_and_deleted(client, topic):
    assert result(client.create_topics([NewTopic(topic, 3, 1)])) is None
    described = eventually(lambda: result(client.describe_topics(TopicCollection([topic]))), "the topic")
    assert (described.name, described.is_internal) == (topic, False)
    assert [each.id for each in described.partitions] == [0, 1, 2]
    assert {each.leader.id for each in described.partitions} == {1}
    assert [[node.id for node in each.isr] for each in described.partitions] == [[1]] * 3
    assert str(described.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
    assert topic in client.list_topics(timeout=10).topics
    assert result(client.delete_topics([topic])) is None
    eventually(lambda: topic not in client.list_topics(timeout=10).topics, "the topic is gone")
    assert rejection(client.describe_topics(TopicCollection([topic]))) == "UNKNOWN_TOPIC_OR_PART"


def test_partitions_are_added(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    assert result(client.create_partitions([NewPartitions(topic, 3)])) is None
    eventually(lambda: len(client.list_topics(topic, timeout=5).topics[topic].partitions) == 3, "three partitions")
    assert offsets_of(send_all(producer(bootstrap), topic, numbered(4), partition=2)) == [0, 1, 2, 3]
    assert rejection(client.create_partitions([NewPartitions(topic, 2)])) == "INVALID_PARTITIONS"
    assert rejection(client.create_partitions([NewPartitions(topic + "-unknown", 2)])) == "UNKNOWN_TOPIC_OR_PART"


@pytest.mark.short
def test_configurations_are_changed_one_by_one(client, bootstrap, topic):
    create_topic(bootstrap, topic, retention_ms=60_000, cleanup_policy="delete")
    changes = change(
        client,
        topic,
        ("retention.ms", AlterConfigOpType.DELETE, None),
        ("segment.bytes", AlterConfigOpType.SET, "2097152"),
        ("cleanup.policy", AlterConfigOpType.APPEND, "compact"),
    )
    assert result(changes) is None

    def changed():
        found = topic_config(client, topic)
        return [
            (found[name].value, found[name].source) for name in ("retention.ms", "segment.bytes", "cleanup.policy")
        ] == [
            ("604800000", ConfigSource.DEFAULT_CONFIG.value),
            ("2097152", ConfigSource.DYNAMIC_TOPIC_CONFIG.value),
            ("delete,compact", ConfigSource.DYNAMIC_TOPIC_CONFIG.value),
        ]

    eventually(changed, "the changed values")
    assert result(change(client, topic, ("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete"))) is None
    eventually(lambda: topic_config(client, topic)["cleanup.policy"].value == "compact", "the smaller list")


def test_invalid_configurations_are_rejected(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    for name, value in [("no.such.config", "1"), ("retention.ms", "soon"), ("cleanup.policy", "burn")]:
        assert rejection(change(client, topic, (name, AlterConfigOpType.SET, value))) == "INVALID_CONFIG"
    unknown = change(client, topic + "-unknown", ("retention.ms", AlterConfigOpType.SET, "1"))
    assert rejection(unknown) == "UNKNOWN_TOPIC_OR_PART"


def test_a_described_configuration_has_its_source(client, bootstrap, topic):
    create_topic(bootstrap, topic, max_message_bytes=2000)
    found = topic_config(client, topic)["max.message.bytes"]
    assert (found.value, found.is_default, found.is_read_only, found.is_sensitive) == ("2000", False, False, False)
    assert [(each.name, each.value) for each in found.synonyms.values()] == [
        ("max.message.bytes", "2000"),
        ("message.max.bytes", "1048588"),
    ]


def test_a_broker_configuration_is_described(client):
    described = result(client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert described["num.partitions"].value == "1"
    assert described["node.id"].is_read_only


@pytest.mark.short
def test_deleted_records_move_the_start_of_the_log(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    offsets_of(send_all(producer(bootstrap), topic, numbered(20)))
    assert result(client.delete_records([TopicPartition(topic, 0, 12)])).low_watermark == 12
    assert [each.offset() for each in read_from(bootstrap, topic, 8)] == list(range(12, 20))
    assert rejection(client.delete_records([TopicPartition(topic, 0, 1000)])) == "OFFSET_OUT_OF_RANGE"
    assert result(client.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 20
    with consumer(bootstrap) as reader:
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (20, 20)


@pytest.mark.short
def test_groups_are_listed_moved_and_deleted(client, bootstrap, topic, group):
    create_topic(bootstrap, topic)
    offsets_of(send_all(producer(bootstrap), topic, numbered(10)))
    with consumer(bootstrap, group_id=group) as reader:
        reader.subscribe([topic])
        read(reader, 10)
        reader.commit(asynchronous=False)
    listed = client.list_consumer_groups(
        states={ConsumerGroupState.EMPTY}, types={ConsumerGroupType.CLASSIC}
    ).result(timeout=10)  # fmt: skip
    assert group in {each.group_id for each in listed.valid}
    assert listed.errors == []
    everything = [ConsumerGroupTopicPartitions(group)]
    found = result(client.list_consumer_group_offsets(everything))
    assert [(each.topic, each.partition, each.offset) for each in found.topic_partitions] == [(topic, 0, 10)]
    move = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    assert result(client.alter_consumer_group_offsets([move])).topic_partitions[0].error is None
    assert result(client.list_consumer_group_offsets(everything)).topic_partitions[0].offset == 4
    assert result(client.delete_consumer_groups([group])) is None
    assert rejection(client.delete_consumer_groups([group])) == "GROUP_ID_NOT_FOUND"


def test_the_cluster_is_described(client):
    described = client.describe_cluster().result(timeout=10)
    assert (described.controller.id, len(described.cluster_id)) == (1, 22)
    assert [(node.id, node.host) for node in described.nodes] == [(1, "127.0.0.1")]


@pytest.mark.short
@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("a/b", {}, "TOPIC_EXCEPTION"),
        ("..", {}, "TOPIC_EXCEPTION"),
        ("x" * 250, {}, "TOPIC_EXCEPTION"),
        (None, {"num_partitions": 0}, "INVALID_PARTITIONS"),
        (None, {"replication_factor": 3}, "INVALID_REPLICATION_FACTOR"),
        (None, {"config": {"no.such.config": "1"}}, "INVALID_CONFIG"),
        (None, {"config": {"retention.ms": "soon"}}, "INVALID_CONFIG"),
        (None, {"replica_assignment": [[7]]}, "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_impossible_topics_are_rejected_and_not_made(client, topic, name, options, error):
    name = name or topic
    wanted = {"num_partitions": 1, "replication_factor": 1} | options
    if "replica_assignment" in options:
        del wanted["replication_factor"]
    assert rejection(client.create_topics([NewTopic(name, **wanted)])) == error
    assert name not in client.list_topics(timeout=10).topics


def test_a_topic_that_exists_is_rejected(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    assert rejection(client.create_topics([NewTopic(topic, 1, 1)])) == "TOPIC_ALREADY_EXISTS"


def test_validation_only_makes_no_topic(client, topic):
    assert result(client.create_topics([NewTopic(topic, 1, 1)], validate_only=True)) is None
    assert topic not in client.list_topics(timeout=10).topics

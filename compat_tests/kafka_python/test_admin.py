"""The admin client: topics, partitions, configurations, records and groups, with their errors."""

import uuid

import pytest
from kafka import TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NoError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import admin, consumer, create_topic, producer, read, read_from, send_all


@pytest.fixture
def client(bootstrap):
    with admin(bootstrap) as opened:
        yield opened


def topic_config(client, topic, *names):
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, list(names) or None)
    return client.describe_configs([resource], config_filter="all")["topic"][topic]


@pytest.mark.short
def test_a_topic_is_created_described_and_deleted(client, topic):
    created = client.create_topics({topic: {"num_partitions": 3, "configs": {"retention.ms": "60000"}}})
    (answer,) = created["topics"]
    assert (answer["num_partitions"], answer["replication_factor"]) == (3, 1)
    assert answer["configs"]["retention.ms"]["value"] == "60000"
    client.wait_for_topics([topic])
    assert topic in client.list_topics()
    (described,) = client.describe_topics([topic])
    assert [each["partition_index"] for each in described["partitions"]] == [0, 1, 2]
    assert {each["leader_id"] for each in described["partitions"]} == {1}
    assert described["topic_id"] == answer["topic_id"] != str(uuid.UUID(int=0))
    client.delete_topics([topic])
    eventually(lambda: topic not in client.list_topics(), "the topic is gone")


def test_a_topic_is_described_by_its_id(client, bootstrap, topic):
    create_topic(bootstrap, topic, partitions=2)
    (by_name,) = client.describe_topics([topic])
    (by_id,) = client.describe_topics([uuid.UUID(str(by_name["topic_id"]))])
    assert by_id["name"] == topic


def test_a_topic_created_again_has_another_id_and_no_records(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    (before,) = client.describe_topics([topic])
    with producer(bootstrap) as sender:
        send_all(sender, topic, numbered(5))
    client.delete_topics([topic])
    eventually(lambda: topic not in client.list_topics(), "the topic is gone")
    create_topic(bootstrap, topic)
    (after,) = client.describe_topics([topic])
    assert after["topic_id"] != before["topic_id"]
    with consumer(bootstrap) as reader:
        assert reader.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}


def test_partitions_are_added_and_old_records_stay(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    with producer(bootstrap) as sender:
        send_all(sender, topic, numbered(5))
        client.create_partitions({topic: 3})
        eventually(lambda: len(client.describe_topics([topic])[0]["partitions"]) == 3, "three partitions")
    with producer(bootstrap) as sender:
        send_all(sender, topic, numbered(4), partition=2)
    assert len(read_from(bootstrap, topic, 5)) == 5
    assert len(read_from(bootstrap, topic, 4, partition=2)) == 4


@pytest.mark.short
def test_configurations_are_changed_one_by_one(client, bootstrap, topic):
    create_topic(bootstrap, topic, retention_ms=60_000, cleanup_policy="delete")
    changes = {"retention.ms": (AlterConfigOp.DELETE, None), "segment.bytes": (AlterConfigOp.SET, "2097152")}
    changes["cleanup.policy"] = (AlterConfigOp.APPEND, "compact")
    answer = client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])
    assert answer == {"topic": {topic: "OK"}}

    def changed():
        found = topic_config(client, topic, "retention.ms", "segment.bytes", "cleanup.policy")
        values = {name: (each["value"], each["config_source"]) for name, each in found.items()}
        return values == {
            "retention.ms": ("604800000", "DEFAULT_CONFIG"),
            "segment.bytes": ("2097152", "DYNAMIC_TOPIC_CONFIG"),
            "cleanup.policy": ("delete,compact", "DYNAMIC_TOPIC_CONFIG"),
        }

    eventually(changed, "the changed values")


def test_configurations_are_replaced_as_a_whole(client, bootstrap, topic):
    create_topic(bootstrap, topic, retention_ms=60_000)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "2097152", "retention.ms": "70000"})
    assert client.alter_configs([resource], incremental=False) == {"topic": {topic: "OK"}}
    eventually(lambda: topic_config(client, topic, "retention.ms")["retention.ms"]["value"] == "70000", "new values")
    client.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    eventually(lambda: topic_config(client, topic, "retention.ms")["retention.ms"]["value"] == "604800000", "reset")
    assert topic_config(client, topic, "segment.bytes")["segment.bytes"]["value"] == "2097152"


def test_a_described_configuration_has_its_type_and_source(client, bootstrap, topic):
    create_topic(bootstrap, topic, max_message_bytes=2000)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    described = client.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][topic]
    found = described["max.message.bytes"]
    assert (found["value"], found["config_type"], found["read_only"]) == ("2000", "INT", False)
    assert found["is_sensitive"] is False
    sources = [(each["name"], each["value"], each["source"]) for each in found["synonyms"]]
    assert sources == [
        ("max.message.bytes", "2000", "DYNAMIC_TOPIC_CONFIG"),
        ("message.max.bytes", "1048588", "DEFAULT_CONFIG"),
    ]


def test_every_topic_configuration_is_described(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    assert set(topic_config(client, topic)) == {
        "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type",
        "compression.zstd.level", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
        "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
        "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
        "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type",
        "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate",
        "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes",
        "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
        "unclean.leader.election.enable",
    }  # fmt: skip


def test_a_broker_configuration_is_described(client):
    resource = ConfigResource(ConfigResourceType.BROKER, "1")
    described = client.describe_configs([resource], config_filter="all")["broker"]["1"]
    assert described["num.partitions"]["value"] == "1"
    assert described["num.partitions"]["config_source"] == "STATIC_BROKER_CONFIG"
    assert described["node.id"]["read_only"] is True
    assert described["log.retention.ms"]["config_type"] == "LONG"


@pytest.mark.short
def test_deleted_records_move_the_start_of_the_log(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    with producer(bootstrap) as sender:
        send_all(sender, topic, numbered(20))
    assert client.delete_records({where: 12})[where]["low_watermark"] == 12
    with consumer(bootstrap) as reader:
        assert reader.beginning_offsets([where]) == {where: 12}
    assert [each.offset for each in read_from(bootstrap, topic, 8)] == list(range(12, 20))
    assert client.delete_records({where: -1})[where]["low_watermark"] == 20
    with pytest.raises(OffsetOutOfRangeError):
        client.delete_records({where: 1000})


@pytest.mark.short
def test_groups_are_listed_described_moved_and_deleted(client, bootstrap, topic, group):
    create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    with producer(bootstrap) as sender:
        send_all(sender, topic, numbered(10))
    with consumer(bootstrap, topic, group_id=group) as reader:
        read(reader, 10)
        reader.commit()
        assert client.delete_groups([group]) == {group: "NonEmptyGroupError"}
    listed = {each["group_id"]: each for each in client.list_groups()}
    assert (listed[group]["protocol_type"], listed[group]["group_type"]) == ("consumer", "classic")
    assert client.describe_groups([group])[group]["group_state"] == "Empty"
    assert client.list_group_offsets({group: None})[group][where].offset == 10
    assert client.alter_group_offsets(group, {where: OffsetAndMetadata(4, "moved", -1)}) == {where: NoError}
    assert client.list_group_offsets({group: [where]})[group][where].offset == 4
    assert client.delete_group_offsets(group, [where]) == {where: NoError}
    assert client.list_group_offsets({group: None})[group] == {}
    client.alter_group_offsets(group, {where: OffsetAndMetadata(4, "again", -1)})
    assert client.delete_groups([group]) == {group: "OK"}
    assert client.delete_groups([group]) == {group: "GroupIdNotFoundError"}


def test_groups_are_listed_by_state_and_type(client, bootstrap, topic, group):
    create_topic(bootstrap, topic)
    with consumer(bootstrap, topic, group_id=group) as reader:
        eventually(lambda: reader.poll(timeout_ms=100) or reader.assignment(), "a share")
        named = {"stable": {"states_filter": ["Stable"]}, "empty": {"states_filter": ["Empty"]}}
        named |= {"classic": {"types_filter": ["classic"]}, "consumer": {"types_filter": ["consumer"]}}
        listed = {
            name: group in {each["group_id"] for each in client.list_groups(**arguments)}
            for name, arguments in named.items()
        }
    assert listed == {"stable": True, "empty": False, "classic": True, "consumer": False}


def test_an_unknown_group_is_described_as_dead(client, group):
    description = client.describe_groups([group])[group]
    assert description["group_state"] == "Dead"
    assert "GroupIdNotFound" in (description["error"] or "")


def test_the_cluster_is_described(client):
    described = client.describe_cluster()
    assert described["controller_id"] == 1
    (broker,) = described["brokers"]
    assert (broker["broker_id"], broker["host"]) == (1, "127.0.0.1")
    assert len(described["cluster_id"]) == 22


def test_log_directories_and_producers_are_described(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    with producer(bootstrap) as sender:
        send_all(sender, topic, numbered(10))
    (described,) = client.describe_log_dirs()
    (directory,) = described["log_dirs"]
    sizes = {
        each["name"]: {part["partition_index"]: part["partition_size"] for part in each["partitions"]}
        for each in directory["topics"]
    }
    assert sizes[topic][0] > 100
    state = client.describe_producers([where])[where]
    assert [each.last_sequence for each in getattr(state, "active_producers", state)] == [9]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "white space", "x" * 250])
def test_invalid_topic_names_are_rejected(client, name):
    with pytest.raises(InvalidTopicError):
        client.create_topics({name: {"num_partitions": 1}})


@pytest.mark.short
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_partitions": 0}, InvalidPartitionsError),
        ({"num_partitions": -2}, InvalidPartitionsError),
        ({"replication_factor": 3}, InvalidReplicationFactorError),
        ({"replication_factor": 0}, InvalidReplicationFactorError),
        ({"configs": {"no.such.config": "1"}}, InvalidConfigurationError),
        ({"configs": {"retention.ms": "soon"}}, InvalidConfigurationError),
        ({"configs": {"retention.ms": "-2"}}, InvalidConfigurationError),
        ({"configs": {"cleanup.policy": "burn"}}, InvalidConfigurationError),
        ({"configs": {"compression.type": "rar"}}, InvalidConfigurationError),
        ({"configs": {"min.insync.replicas": "0"}}, InvalidConfigurationError),
    ],
)
def test_impossible_topics_are_rejected_and_not_made(client, topic, options, error):
    with pytest.raises(error):
        client.create_topics({topic: options})
    assert topic not in client.list_topics()


def test_a_topic_that_exists_is_rejected(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    with pytest.raises(TopicAlreadyExistsError):
        client.create_topics({topic: {"num_partitions": 1}})


def test_validation_only_makes_no_topic(client, topic):
    answer = client.create_topics({topic: {"num_partitions": 2}}, validate_only=True)
    assert [(each["error_code"], each["num_partitions"]) for each in answer["topics"]] == [(0, 2)]
    assert topic not in client.list_topics()


def test_topics_of_one_request_fail_one_by_one(client, unique):
    good, bad = unique("good"), unique("bad")
    wanted = {good: {"num_partitions": 1}, bad: {"configs": {"no.such.config": "1"}}}
    answer = client.create_topics(wanted, raise_errors=False)
    assert {each["name"]: each["error_code"] for each in answer["topics"]} == {good: 0, bad: 40}
    eventually(lambda: good in client.list_topics(), "the good topic")
    assert bad not in client.list_topics()


def test_partitions_cannot_be_taken_away(client, bootstrap, topic):
    create_topic(bootstrap, topic, partitions=3)
    for count in (1, 3):
        with pytest.raises(InvalidPartitionsError):
            client.create_partitions({topic: count})
    with pytest.raises(UnknownTopicOrPartitionError):
        client.create_partitions({topic + "-unknown": 3})


def test_unknown_topics_cannot_be_deleted_or_configured(client, topic):
    with pytest.raises(UnknownTopicOrPartitionError):
        client.delete_topics([topic])
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1000"})
    answer = client.alter_configs([resource], raise_on_unknown=False)
    assert "UnknownTopicOrPartitionError" in answer["topic"][topic]


def test_an_invalid_configuration_changes_nothing(client, bootstrap, topic):
    create_topic(bootstrap, topic)
    changes = {"segment.bytes": "2097152", "retention.ms": "soon"}
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, changes)
    answer = client.alter_configs([resource], raise_on_unknown=False)
    assert "InvalidConfigurationError" in answer["topic"][topic]
    assert topic_config(client, topic, "segment.bytes")["segment.bytes"]["value"] == "1073741824"

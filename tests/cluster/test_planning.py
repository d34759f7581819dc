"""Controller's plans: records for valid requests, Kafka's error codes for invalid ones."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import at_once
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.plans.configs import CORDONED, AlterOperation, changed, plan_replacement
from kwire.cluster.controller.plans.topics import NewTopic, TopicDefaults, plan_partitions, plan_removal, plan_topic
from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from kwire.seams import SystemRandomSource
from tests.cluster.controller.support import plan_incremental

ID = UUID(int=9)
DIRECTORY = UUID(int=3)
CHANCE = SystemRandomSource(seed=1)
DEFAULTS = TopicDefaults(num_partitions=2, replication_factor=1)
TOPIC, BROKER = int(ConfigResourceType.TOPIC), int(ConfigResourceType.BROKER)
GROUP, CLIENT_METRICS = int(ConfigResourceType.GROUP), int(ConfigResourceType.CLIENT_METRICS)
SET, DELETE, APPEND, SUBTRACT = AlterOperation


def brokers(*ids: int, fenced: tuple[int, ...] = (), topics: tuple[str, ...] = ()) -> MetadataImage:
    batch: list[Any] = [
        records.RegisterBrokerRecord(broker_id=each, fenced=each in fenced, log_dirs=[DIRECTORY]) for each in ids
    ]
    image = MetadataImage().apply(batch, offset=len(batch), epoch=1)
    for number, name in enumerate(topics):
        made, _ = at_once(
            plan_topic(image, requested(name), topic_id=UUID(int=100 + number), defaults=DEFAULTS, random_source=CHANCE)
        )
        image = image.apply(made, offset=image.offset + len(made), epoch=1)
    return image


def requested(name: str = "t", **fields: Any) -> NewTopic:
    return NewTopic(**({"name": name, "configs": {}} | fields))


def plan(image: MetadataImage, **fields: Any) -> list[Any]:
    made, _ = at_once(plan_topic(image, requested(**fields), topic_id=ID, defaults=DEFAULTS, random_source=CHANCE))
    return made


THREE = brokers(1, 2, 3, topics=("there", "a.b"))


def test_a_topic_takes_defaults_and_goes_round_the_brokers() -> None:
    made, created = at_once(
        plan_topic(
            THREE,
            requested(num_partitions=4, replication_factor=2),
            topic_id=ID,
            defaults=DEFAULTS,
            random_source=CHANCE,
        )
    )
    assert isinstance(made[0], records.TopicRecord)
    assert {each.replicas[0] for each in made[1:4]} == {1, 2, 3}
    assert all(len(set(each.replicas)) == 2 for each in made[1:])
    assert all(each.isr == each.replicas and each.leader == each.replicas[0] for each in made[1:])
    assert (created.num_partitions, created.replication_factor) == (4, 2)
    assert len(plan(THREE)) == 1 + DEFAULTS.num_partitions


def test_configs_become_records_of_the_topic() -> None:
    made = plan(THREE, configs={"retention.ms": "5"})
    assert [(each.resource_type, each.resource_name, each.name, each.value) for each in made[1:2]] == [
        (TOPIC, "t", "retention.ms", "5")
    ]


def test_a_fenced_broker_is_no_leader() -> None:
    image = brokers(1, 2, fenced=(1,))
    (made,) = plan(image, assignments=[(0, [1, 2])])[1:]
    assert (made.replicas, made.isr, made.leader) == ([1, 2], [2], 2)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "there"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a/b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "ä"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "t\n"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a_b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "__cluster_metadata"}, ErrorCode.INVALID_REQUEST),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": 10_001}, ErrorCode.POLICY_VIOLATION),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"configs": {"no.such": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"cleanup.policy": "burn"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"min.insync.replicas": "0"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"remote.storage.enable": "true"}}, ErrorCode.INVALID_CONFIG),
        (
            {"configs": {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}},
            ErrorCode.INVALID_CONFIG,
        ),
        ({"assignments": [(0, [1])], "num_partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [1])], "replication_factor": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [9])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [1, 1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [1]), (0, [2])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(1, [1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [1]), (1, [1, 2])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_topics_are_rejected(fields: dict[str, Any], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as rejected:
        plan(THREE, **fields)
    assert rejected.value.code is code
    assert rejected.value.message


def test_no_broker_is_alive() -> None:
    with pytest.raises(KafkaError) as rejected:
        plan(brokers(1, fenced=(1,)))
    assert rejected.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError) as rejected:
        plan(brokers(1, fenced=(1,)), assignments=[(0, [1])])
    assert rejected.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_partitions_are_added_behind_those_there() -> None:
    made = at_once(plan_partitions(THREE, "there", 4, None, random_source=CHANCE))
    assert [each.partition_id for each in made] == [2, 3]
    assert all(set(each.replicas) < {1, 2, 3} and len(each.replicas) == 1 for each in made)
    assert made[0].replicas != made[1].replicas
    made = at_once(plan_partitions(THREE, "there", 3, [[2]], random_source=CHANCE))
    assert [(each.partition_id, each.replicas) for each in made] == [(2, [2])]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("missing", 3, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("there", 2, None), ErrorCode.INVALID_PARTITIONS),
        (("there", 1, None), ErrorCode.INVALID_PARTITIONS),
        (("there", 0, None), ErrorCode.INVALID_PARTITIONS),
        (("there", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("there", 3, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("there", 3, [[7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("there", 20_000, None), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_invalid_new_partitions_are_rejected(wanted: tuple[str, int, list[list[int]] | None], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as rejected:
        at_once(plan_partitions(THREE, *wanted, random_source=CHANCE))
    assert rejected.value.code is code


def test_a_topic_goes_with_its_configs() -> None:
    made = plan(THREE, configs={"retention.ms": "5", "segment.ms": "7"})
    image = THREE.apply(made, offset=50, epoch=1)
    image = image.apply(plan_removal(image, image.topics["t"]), offset=60, epoch=1)
    assert image.configs == {}
    assert set(image.topics) == {"there", "a.b"}


def alter(resource: tuple[int, str], *changes: tuple[str, int, str | None]) -> dict[str, str | None]:
    made = plan_incremental(THREE_CONFIGURED, resource, changes, settings=default_settings())
    return {each.name: each.value for each in made}


THREE_CONFIGURED = THREE.apply(
    [records.ConfigRecord(resource_type=TOPIC, resource_name="there", name="retention.ms", value="5")],
    offset=90,
    epoch=1,
)
THERE = (TOPIC, "there")


def test_a_controller_has_a_configuration_though_it_is_no_broker() -> None:
    image = THREE.apply([records.RegisterControllerRecord(controller_id=70)], offset=90, epoch=1)
    changes = [("max.connections", SET, "9")]
    [made] = plan_incremental(image, (BROKER, "70"), changes, settings=default_settings())
    assert (made.resource_name, made.name, made.value) == ("70", "max.connections", "9")
    with pytest.raises(KafkaError, match="No broker with id 71"):
        plan_incremental(image, (BROKER, "71"), changes, settings=default_settings())


@pytest.mark.parametrize("value", ["/d1", ""])
def test_cordoning_requires_a_metadata_version(value: str) -> None:
    older = records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_4_3_IV0 - 1)
    image = with_a_broker().apply([older], offset=91, epoch=1)
    with pytest.raises(KafkaError, match=r"requires metadata\.version") as caught:
        plan_incremental(image, (BROKER, "7"), [(CORDONED, SET, value)], settings=default_settings())
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_direct_controller_request_can_only_remove_cordoned_directories() -> None:
    image, there = with_a_broker(), (BROKER, "7")
    made = plan_incremental(image, there, [(CORDONED, SET, "/d1,/d2")], settings=default_settings())
    image = image.apply(made, offset=92, epoch=1)

    def directly(value: str) -> list[object]:
        changes = [(CORDONED, SET, value)]
        return plan_incremental(image, there, changes, settings=default_settings(), is_forwarded=False)

    for value in ("/d1,/d3", "/d1,/d2,/d3"):
        with pytest.raises(KafkaError, match="only removes entries"):
            directly(value)
        with pytest.raises(KafkaError, match="only removes entries"):
            plan_replacement(image, there, {CORDONED: value}, settings=default_settings(), is_forwarded=False)
    for value in ("/d2", "/d2, /d1", ""):
        assert len(directly(value)) == 1
    assert plan_replacement(image, there, {}, settings=default_settings(), is_forwarded=False)


def with_a_broker() -> MetadataImage:
    newest = records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_4_3_IV0)
    controller = records.RegisterControllerRecord(controller_id=7)
    return THREE.apply([newest, controller], offset=90, epoch=1)


def test_items_are_added_once_and_taken_away_as_often_as_they_are_given() -> None:
    name = "log.cleanup.policy"

    def items(before: str, operation: AlterOperation, value: str) -> str:
        return at_once(changed((BROKER, ""), {name: before}, [(name, operation, value)]))[name]

    assert items("a,b,a", APPEND, "c,b,c,d") == "a,b,a,c,d"
    assert items("a,b,a,c", SUBTRACT, "a,c,x") == "b,a"
    assert items("a,b,a,c", SUBTRACT, "a,a") == "b,c"
    assert items("a", SUBTRACT, "a") == ""


def test_incremental_config_changes_without_effect_are_not_written() -> None:
    assert alter(THERE, ("segment.ms", SET, "9"), ("retention.ms", DELETE, None)) == {
        "segment.ms": "9",
        "retention.ms": None,
    }
    assert alter(THERE, ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)) == {}
    assert alter(THERE, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert alter(THERE, ("cleanup.policy", APPEND, "delete")) == {"cleanup.policy": "delete"}
    assert alter((BROKER, ""), ("log.retention.ms", SET, "7")) == {"log.retention.ms": "7"}
    assert alter((BROKER, "2"), ("plug.in", SET, "x")) == {"plug.in": "x"}


@pytest.mark.parametrize(
    ("resource", "changes", "code"),
    [
        ((TOPIC, "missing"), [("retention.ms", 0, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, ""), [("retention.ms", 0, "1")], ErrorCode.INVALID_REQUEST),
        ((TOPIC, "a/b"), [("retention.ms", 0, "1")], ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "9"), [("log.retention.ms", 0, "1")], ErrorCode.INVALID_REQUEST),
        ((BROKER, "one"), [("log.retention.ms", 0, "1")], ErrorCode.INVALID_REQUEST),
        ((77, "x"), [("a", 0, "1")], ErrorCode.INVALID_REQUEST),
        (THERE, [("retention.ms", 0, "1"), ("retention.ms", 0, "2")], ErrorCode.INVALID_REQUEST),
        (THERE, [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        (THERE, [("retention.ms", 0, None)], ErrorCode.INVALID_REQUEST),
        (THERE, [("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG),
        (THERE, [("no.such", 0, "1")], ErrorCode.INVALID_CONFIG),
        (THERE, [("segment.bytes", 0, "x")], ErrorCode.INVALID_CONFIG),
        (THERE, [("cleanup.policy", 2, "burn")], ErrorCode.INVALID_CONFIG),
        ((GROUP, "g"), [("no.such", 0, "1")], ErrorCode.INVALID_CONFIG),
        ((GROUP, ""), [("share.isolation.level", 0, "read_committed")], ErrorCode.INVALID_REQUEST),
        ((GROUP, "g"), [("consumer.session.timeout.ms", 0, "1")], ErrorCode.INVALID_CONFIG),
        ((GROUP, "g"), [("consumer.session.timeout.ms", 0, "9999999")], ErrorCode.INVALID_CONFIG),
        ((CLIENT_METRICS, ""), [("metrics", 0, "*")], ErrorCode.INVALID_REQUEST),
        ((CLIENT_METRICS, "m"), [("no.such", 0, "*")], ErrorCode.INVALID_REQUEST),
        ((CLIENT_METRICS, "m"), [("interval.ms", 0, "99")], ErrorCode.INVALID_REQUEST),
        ((CLIENT_METRICS, "m"), [("match", 0, "client_id=[")], ErrorCode.INVALID_CONFIG),
        ((CLIENT_METRICS, "m"), [("match", 0, "client_id")], ErrorCode.INVALID_CONFIG),
        ((CLIENT_METRICS, "m"), [("match", 0, "client_id=a=b")], ErrorCode.INVALID_CONFIG),
        ((CLIENT_METRICS, "m"), [("match", 0, "colour=red")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_config_changes_are_rejected(resource: tuple[int, str], changes: list[Any], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as rejected:
        alter(resource, *changes)
    assert rejected.value.code is code


def test_a_replacement_is_the_whole_configuration() -> None:
    made = plan_replacement(THREE_CONFIGURED, THERE, {"segment.ms": "9"}, settings=default_settings())
    assert {each.name: each.value for each in made} == {"retention.ms": None, "segment.ms": "9"}
    with pytest.raises(KafkaError) as rejected:
        plan_replacement(THREE_CONFIGURED, THERE, {"segment.ms": None}, settings=default_settings())
    assert rejected.value.code is ErrorCode.INVALID_REQUEST

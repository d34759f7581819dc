"""Rules for values of requests about topics, their configurations and replicas."""

from compat_tests.configs.probes import VALUES
from compat_tests.differential.drawing import Rule, Scope
from compat_tests.differential.random_source import NO_ID, TOPICS, RandomSource
from kwire.cluster.configs.topic import TOPIC_KEYS

RESOURCE_TYPES = (2, 4, 8, 16, 32)
BROKER_KEYS = ("log.retention.ms", "log.segment.delete.delay.ms", "num.network.threads", "broker.id", "never.heard")
GROUP_KEYS = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "never.heard",
)
METRICS_KEYS = ("interval.ms", "metrics", "match", "never.heard")
HARMLESS = sorted(TOPIC_KEYS)
LESS_THAN_AN_ENTRY = {"7": "500", " 7 ": " 500 ", "+5": "+500"}


def _config_name(random_source: RandomSource, scope: Scope) -> str:
    keys = {4: BROKER_KEYS, 16: METRICS_KEYS, 32: GROUP_KEYS}.get(scope.get("resource_type", 2), HARMLESS)
    return (
        random_source.choice(keys)
        if random_source.often(0.95)
        else random_source.choice(("never.heard", "", "Retention.ms"))
    )


def _config_value(random_source: RandomSource, scope: Scope) -> str | None:
    if random_source.often(0.05):
        return None
    key = TOPIC_KEYS.get(scope.get("name", ""))
    if key is None:
        return random_source.choice(("1000", "-1", "5", "abc", "", "true"))
    value = random_source.choice(VALUES[str(key.type.name)])
    if key.name == "segment.index.bytes":
        # Kafka accepts a size below one index entry and then fails to create the logs: the topic, and topics of the
        # same request, have no leader.
        return LESS_THAN_AN_ENTRY.get(value, value)
    return value


def _resource_name(random_source: RandomSource, scope: Scope) -> str:
    kind = scope["resource_type"]
    if random_source.often(0.05):
        return random_source.choice(("", "missing", "1", "bad name!"))
    names = {4: ("1", "1", "1", "", "2", "x"), 8: ("1", "1", "2", ""), 16: ("sub-1", "sub-2"), 32: ("g-1", "g-2")}
    return random_source.choice(names.get(kind, TOPICS))


def _resource_type(random_source: RandomSource, _: Scope) -> int:
    return random_source.one_of((70, 2), (10, 4), (3, 8), (6, 16), (6, 32), (2, 0), (2, 1), (1, 99))


def _listed_keys(random_source: RandomSource, scope: Scope) -> list[str] | None:
    if scope["resource_type"] == 4 and not random_source.often(0.1):
        return [_config_name(random_source, scope) for _ in range(2)]
    return None if random_source.often(0.4) else random_source.several(lambda: _config_name(random_source, scope))


def _metadata_name(random_source: RandomSource, scope: Scope) -> str | None:
    """Return a name or None: topics are requested by id, by name, or (which is invalid) by both."""
    if scope["version"] >= 10 and random_source.often(0.3):
        return None
    return random_source.topic(read_only=True)


def _metadata_id(random_source: RandomSource, scope: Scope) -> object:
    return random_source.topic_id(random_source.topic()) if random_source.often(0.3) else NO_ID


def _id_of_the_name(random_source: RandomSource, scope: Scope) -> object:
    return random_source.topic_id(scope.get("name") or scope.get("topic") or random_source.topic())


def _partition(random_source: RandomSource, _: Scope) -> int:
    return random_source.partition()


def _partitions(random_source: RandomSource, _: Scope) -> list[int]:
    return list(
        dict.fromkeys(random_source.several(random_source.partition, least=0 if random_source.often(0.03) else 1))
    )


def _replicas(random_source: RandomSource, _: Scope) -> list[int]:
    return random_source.one_of((80, [1]), (5, []), (5, [1, 1]), (5, [2]), (5, [1, 2]))


RULES: dict[str, Rule] = {
    "MetadataRequestTopic.topic_id": _metadata_id,
    "MetadataRequestTopic.name": _metadata_name,
    "allow_auto_topic_creation": lambda random_source, _: random_source.often(0.3),
    "topic_id": _id_of_the_name,
    "partition_index": _partition,
    "partition": _partition,
    "index": _partition,
    "partitions": _partitions,
    "partition_indexes": _partitions,
    "broker_ids": _replicas,
    "replicas": lambda random_source, scope: None if random_source.often(0.3) else _replicas(random_source, scope),
    "CreatableTopic.name": lambda random_source, _: random_source.topic(),
    "num_partitions": lambda random_source, _: random_source.pick((1, 2, 3, 4, -1), (0, -2), 0.06),
    "replication_factor": lambda random_source, _: random_source.pick((1, 1, -1), (0, 2, -2), 0.06),
    "CreatableTopic.assignments": lambda random_source, _: (
        random_source.choice((1, 2)) if random_source.often(0.06) else 0
    ),
    "CreatableTopic.configs": lambda random_source, _: random_source.choice((1, 2)) if random_source.often(0.2) else 0,
    "CreatableTopicConfig.name": _config_name,
    "CreatableTopicConfig.value": _config_value,
    "validate_only": lambda random_source, _: random_source.often(0.15),
    "DeleteTopicState.name": lambda random_source, _: None if random_source.often(0.4) else random_source.topic(),
    "DeleteTopicState.topic_id": lambda random_source, scope: (
        NO_ID
        if scope["name"] is not None and random_source.often(0.95)
        else random_source.topic_id(random_source.topic())
    ),
    "topic_names": lambda random_source, _: list(dict.fromkeys(random_source.several(random_source.topic, most=2))),
    "CreatePartitionsTopic.name": lambda random_source, _: random_source.topic(),
    "CreatePartitionsTopic.count": lambda random_source, _: random_source.choice((1, 2, 3, 4, 5, 6, 0, -1)),
    "CreatePartitionsTopic.assignments": lambda random_source, _: (
        random_source.choice((1, 2)) if random_source.often(0.2) else 0
    ),
    "resource_type": _resource_type,
    "resource_name": _resource_name,
    "configuration_keys": _listed_keys,
    "AlterConfigsAlterableConfig.name": _config_name,
    "AlterConfigsAlterableConfig.value": _config_value,
    "IncrementalAlterConfigsAlterableConfig.name": _config_name,
    "IncrementalAlterConfigsAlterableConfig.value": _config_value,
    "config_operation": lambda random_source, _: random_source.one_of(
        (60, 0), (20, 1), (8, 2), (8, 3), (2, 4), (2, -1)
    ),
    "path": lambda random_source, _: random_source.choice(("/nowhere", "", "relative")),
    "topic": lambda random_source, _: random_source.topic(),
    "ReassignableTopic.name": lambda random_source, _: random_source.topic(),
    "ListPartitionReassignmentsTopics.name": lambda random_source, _: random_source.topic(),
    "AlterReplicaLogDirTopic.name": lambda random_source, _: random_source.topic(),
    "DescribableLogDirTopic.topic": lambda random_source, _: random_source.topic(read_only=True),
    "election_type": lambda random_source, _: random_source.one_of((60, 0), (30, 1), (5, 2), (5, -1)),
    "DescribeTopicPartitionsTopicRequest.name": lambda random_source, _: random_source.topic(read_only=True),
    "response_partition_limit": lambda random_source, _: random_source.choice((2000, 1, 2, 5, 0, -1)),
    "DescribeTopicPartitionsRequestCursor.topic_name": lambda random_source, _: random_source.topic(),
}

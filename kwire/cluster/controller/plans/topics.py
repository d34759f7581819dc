"""Decisions of the controller about topics: pure functions from an image and a request to metadata records.

An invalid request raises KafkaError with Kafka's code and wording, and leaves no record behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from kwire.chunks import CHUNK, Pieces, mapped
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.config_keys import ConfigError, ConfigResourceType
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.configs.topic_configs import check_topic_configs
from kwire.cluster.controller.limits import PARTITIONS_PER_REQUEST_MAX, check_partitions
from kwire.cluster.controller.view import usable_brokers
from kwire.cluster.directory_ids import default_directory
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.placement import place
from kwire.cluster.topic_names import METADATA_TOPIC, can_collide, check_topic_name, collision_key
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kwire.seams import RandomSource


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """Topic that a client requests; -1 means the broker's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """Result of creating a topic."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Values of num.partitions and default.replication.factor, and the current settings of the node."""

    num_partitions: int
    replication_factor: int
    current: CurrentSettings = field(default_factory=lambda: CurrentSettings(default_settings()))


def plan_topic(
    image: MetadataImage, topic: NewTopic, *, topic_id: UUID, defaults: TopicDefaults, random_source: RandomSource
) -> Pieces[tuple[list[Any], CreatedTopic]]:
    """Return the records of a new topic, and its result for the client; CHUNK partitions in a step."""
    if topic.name == METADATA_TOPIC:
        # Its directory would have the name of the metadata log's directory.
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    check_topic_name(topic.name)
    _check_collision(image, topic.name)
    if topic.name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    configs = _checked_configs(topic, defaults.current.values)
    replicas = (
        yield from _assigned(image, topic) if topic.assignments else _placed(image, topic, defaults, random_source)
    )
    records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += yield from _partition_records(image, topic_id, 0, replicas)
    created = CreatedTopic(
        name=topic.name, topic_id=topic_id, num_partitions=len(replicas), replication_factor=len(replicas[0])
    )
    return records, created


def check_total(topics: Sequence[NewTopic], *, defaults: TopicDefaults) -> Pieces[None]:
    """Reject a request whose topics together have too many partitions. Raises KafkaError."""

    def count(topic: NewTopic) -> int:
        partitions = defaults.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)
        return len(topic.assignments) or partitions

    if sum((yield from mapped(topics, count))) > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def plan_partitions(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    *,
    random_source: RandomSource,
) -> Pieces[list[Any]]:
    """Return the records that increase a topic to `count` partitions; CHUNK partitions in a step."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s); {count} would not be an increase.",
        )
    additional = count - present
    if assignments is not None and len(assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified.",
        )
    check_partitions(additional)
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is None:
        brokers = usable_brokers(image)
        placed = yield from place(
            brokers, partitions=additional, replication_factor=replication_factor, random_source=random_source
        )
    else:
        placed = yield from mapped(assignments, lambda brokers: _checked_assignment(image, brokers, replication_factor))
    return (yield from _partition_records(image, topic.topic_id, present, placed))


def is_plan_valid(before: MetadataImage, now: MetadataImage, name: str) -> bool:
    """Return True if a plan for the topic, made on an earlier image, can be written on the newest one."""
    return (
        before.brokers is now.brokers
        and before.features is now.features
        and before.topics.get(name) is now.topics.get(name)
        and _colliding(before, name) == _colliding(now, name)
    )


def plan_removal(image: MetadataImage, topic: TopicImage) -> list[Any]:
    """Return the records that delete a topic and its configurations."""
    configs = image.config_of(ConfigResourceType.TOPIC, topic.name)
    records: list[Any] = [
        ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name=topic.name, name=name, value=None)
        for name in configs
    ]
    return [*records, RemoveTopicRecord(topic_id=topic.topic_id)]


def _colliding(image: MetadataImage, name: str) -> tuple[str, ...]:
    """Return the topics whose metric names collide with those of a topic of this name."""
    return image.topics_by_collision_key.get(collision_key(name), ()) if can_collide(name) else ()


def _check_collision(image: MetadataImage, name: str) -> None:
    for other in _colliding(image, name):
        if other != name:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _checked_configs(topic: NewTopic, settings: Mapping[str, Any]) -> Mapping[str, str]:
    if None in topic.configs.values():
        empty = [name for name, value in topic.configs.items() if value is None]
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(empty)}")
    configs = cast("Mapping[str, str]", topic.configs)
    try:
        check_topic_configs(configs, settings)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


def _placed(
    image: MetadataImage, topic: NewTopic, defaults: TopicDefaults, random_source: RandomSource
) -> Pieces[list[list[int]]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    partitions = defaults.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    check_partitions(partitions)
    try:
        return (
            yield from place(
                usable_brokers(image), partitions=partitions, replication_factor=factor, random_source=random_source
            )
        )
    except KafkaError as error:
        raise KafkaError(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}") from error


def _assigned(image: MetadataImage, topic: NewTopic) -> Pieces[list[list[int]]]:
    for value, what in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
        if value != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"A manual partition assignment was specified, but {what} was not set to -1."
            )
    check_partitions(len(topic.assignments))
    replicas: dict[int, list[int]] = {}
    factor: int | None = None
    for index, brokers in topic.assignments:
        if index in replicas:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        replicas[index] = _checked_assignment(image, brokers, factor)
        factor = len(brokers)
        if len(replicas) % CHUNK == 0:
            yield
    if sorted(replicas) != list(range(len(replicas))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [replicas[index] for index in range(len(replicas))]


def _checked_assignment(image: MetadataImage, brokers: Sequence[int], factor: int | None) -> list[int]:
    reject = "The manual partition assignment includes "
    if not brokers:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{reject}an empty replica list.")
    for position, broker in enumerate(ordered := sorted(brokers)):
        if broker not in image.brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{reject}broker {broker}, but no such broker is registered."
            )
        if position and ordered[position - 1] == broker:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{reject}the broker {broker} more than once.")
    if factor is not None and len(brokers) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{reject}a partition with {len(brokers)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s).",
        )
    return list(brokers)


def _partition_records(
    image: MetadataImage, topic_id: UUID, first: int, replicas: Sequence[Sequence[int]]
) -> Pieces[list[PartitionRecord]]:
    """Return the records of new partitions, numbered from `first` on, by the brokers that hold each."""
    active = {broker.broker_id for broker in image.brokers.values() if broker.is_active}
    directories = {broker.broker_id: default_directory(broker.directories) for broker in image.brokers.values()}

    def record(numbered: tuple[int, Sequence[int]]) -> PartitionRecord:
        index, brokers = numbered
        isr = [broker for broker in brokers if broker in active]
        if not isr:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for "
                f"partition {index} are fenced or in controlled shutdown.",
            )
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(brokers),
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[directories[broker] for broker in brokers],
        )

    return (yield from mapped(enumerate(replicas, first), record))

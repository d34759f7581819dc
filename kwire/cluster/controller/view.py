"""View of the controller: the image that it decides on, and the settings that apply.

A topic's setting is, as in Kafka, the topic's own, else that of the active controller's node, else the cluster's
default, all three as the image has them, else that of the controller's file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from kwire.chunks import Pieces, at_once
from kwire.cluster.config_keys import ConfigError, ConfigResourceType, parse
from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.directory_ids import UNASSIGNED, default_directory, is_online
from kwire.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kwire.cluster.image import MetadataImage, PartitionImage, TopicImage
from kwire.cluster.placement import UsableBroker
from kwire.protocol.error_codes import ErrorCode, KafkaError

RECORDS_PER_OPERATION_MAX = 10_000
"""Of one operation that a client asks for, as in Kafka."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class Place(NamedTuple):
    """A partition, and where it is in the image."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """The newest image as one controller sees it."""

    image: MetadataImage
    settings: Mapping[str, Any]
    """All settings of the controller's file by name, with typed values. They never change: a view depends on its image
    alone."""
    controller_id: int
    only: Sequence[Place] | None = None
    """Partitions that a plan is about, instead of all."""

    @property
    def has_eligible_leaders(self) -> bool:
        return has_eligible_leaders(self.image)

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead and be in sync."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def has_online_replica(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether a broker has a replica, in a directory that is online."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker_id not in partition.replicas:
            return False
        return is_online(directory_of(partition, broker_id), broker.directories)

    def default_directory(self, broker_id: int) -> UUID:
        """The directory that a new replica on a broker is said to be in."""
        broker = self.image.brokers.get(broker_id)
        return UNASSIGNED if broker is None else default_directory(broker.directories)

    def min_insync_replicas(self, topic: TopicImage) -> int:
        """min.insync.replicas of a topic, at most its replication factor."""
        wanted: int = self._setting(topic, MIN_INSYNC_REPLICAS)
        return min(wanted, len(topic.partitions[0].replicas))

    def allows_unclean_election(self, topic: TopicImage) -> bool:
        allows: bool = self._setting(topic, UNCLEAN_LEADER_ELECTION)
        return allows

    def _setting(self, topic: TopicImage, name: str) -> Any:
        """Return the typed value of a setting; skip values that do not parse, as nothing validates those of brokers."""
        for kind, resource in (
            (ConfigResourceType.TOPIC, topic.name),
            (ConfigResourceType.BROKER, str(self.controller_id)),
            (ConfigResourceType.BROKER, ""),
        ):
            value = self.image.config_of(kind, resource).get(name)
            if value is not None:
                with suppress(ConfigError):
                    return parse(BROKER_KEYS[name], value)
        return self.settings[name]

    def after(self, records: Collection[Any]) -> ControllerView:
        """The view when these records, too, are in the image: for an operation of several steps."""
        return at_once(self.after_in_pieces(records))

    def after_in_pieces(self, records: Collection[Any]) -> Pieces[ControllerView]:
        """As `after`, a few records at a time."""
        if not records:
            return self
        image = yield from self.image.apply_in_pieces(records, offset=self.image.offset, epoch=self.image.epoch)
        only = None if self.only is None else [place for each in self.only for place in _place_in(image, each)]
        return dataclasses.replace(self, image=image, only=only)

    def places(self) -> Iterator[Place]:
        """All partitions, or those that a plan is about."""
        if self.only is not None:
            yield from self.only
            return
        for topic in self.image.topics.values():
            for partition_id, partition in enumerate(topic.partitions):
                yield Place(topic, partition_id, partition)

    def leads_any(self, broker_id: int) -> bool:
        topics = self.image.topics.values()
        return any(broker_id in {partition.leader for partition in topic.partitions} for topic in topics)

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """Refuse who speaks for an earlier registration of a broker, or for none."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
        if broker.broker_epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"the broker epoch is {broker.broker_epoch}, not {broker_epoch}"
            )


def _place_in(image: MetadataImage, place: Place) -> Iterator[Place]:
    """Yield a partition as another image has it; nothing if its topic is gone."""
    topic = image.topic_by_id(place.topic.topic_id)
    if topic is not None:
        yield Place(topic, place.partition_id, topic.partitions[place.partition_id])


def has_eligible_leaders(image: MetadataImage) -> bool:
    """Whether eligible leader replicas are kept (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def directory_of(partition: PartitionImage, broker_id: int) -> UUID:
    """Where one of a partition's replicas is."""
    position = partition.replicas.index(broker_id)
    return partition.directories[position] if position < len(partition.directories) else UNASSIGNED


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """Return the brokers that may get new replicas.

    A broker in controlled shutdown gets none until it is fenced: then it counts like any other fenced broker. A broker
    that has cordoned all of its directories gets none (KIP-1066).
    """
    return [
        UsableBroker(broker_id=broker.broker_id, rack=broker.rack, is_fenced=broker.fenced)
        for broker in image.brokers.values()
        if (broker.fenced or not broker.in_controlled_shutdown)
        and _takes_replicas(broker.directories, broker.cordoned_directories)
    ]


def _takes_replicas(directories: Collection[UUID], cordoned: Collection[UUID]) -> bool:
    return not directories or not cordoned or not set(directories) <= set(cordoned)


def check_size(records: int) -> None:
    """Refuse an operation that would write too much at once."""
    if records > RECORDS_PER_OPERATION_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the operation would write {records} records; at most {RECORDS_PER_OPERATION_MAX} are written at a time",
        )

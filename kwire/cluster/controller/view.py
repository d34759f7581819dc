"""View of the controller: the image that it decides on, and the settings that apply.

As in Kafka, a topic's setting is the first of these that is set: the topic's own value, the value of the active
controller's node, the cluster's default, and the value in the controller's file. The first three come from the
image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from kwire.chunks import Pieces, at_once
from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import ConfigError, ConfigResourceType, parse
from kwire.cluster.directory_ids import UNASSIGNED, default_directory, is_online
from kwire.cluster.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kwire.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from kwire.cluster.placement import UsableBroker
from kwire.protocol.error_codes import ErrorCode, KafkaError

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class Place(NamedTuple):
    """Partition, with its position in the image."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """Newest image, as one controller sees it."""

    image: MetadataImage
    settings: Mapping[str, Any]
    """All settings of the controller's file by name, with typed values. They never change, so that a view depends on
    its image alone."""
    controller_id: int
    only: Sequence[Place] | None = None
    """Partitions that a plan covers; None for all."""

    @property
    def is_elr_enabled(self) -> bool:
        return is_elr_enabled(self.image)

    def is_active(self, broker_id: int) -> bool:
        """Return True if a broker may lead and be in sync."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def has_online_replica(self, partition: PartitionImage, broker_id: int) -> bool:
        """Return True if a broker has a replica, in a directory that is online."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker_id not in partition.replicas:
            return False
        return is_online(directory_of(partition, broker_id), broker.directories)

    def default_directory(self, broker_id: int) -> UUID:
        """Return the directory id to store for a new replica on a broker."""
        broker = self.image.brokers.get(broker_id)
        return UNASSIGNED if broker is None else default_directory(broker.directories)

    def min_insync_replicas(self, topic: TopicImage) -> int:
        """Return min.insync.replicas of a topic, at most its replication factor."""
        configured: int = self._setting(topic, MIN_INSYNC_REPLICAS)
        return min(configured, len(topic.partitions[0].replicas))

    def allows_unclean_election(self, topic: TopicImage) -> bool:
        allows: bool = self._setting(topic, UNCLEAN_LEADER_ELECTION)
        return allows

    def _setting(self, topic: TopicImage, name: str) -> Any:
        """Return the typed value of a setting; skip unparsable values, as values of brokers are not validated."""
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
        """Return the view with these records applied to the image, for an operation of several steps."""
        return at_once(self.after_in_pieces(records))

    def after_in_pieces(self, records: Collection[Any]) -> Pieces[ControllerView]:
        """Like `after`, in steps."""
        if not records:
            return self
        image = yield from self.image.apply_in_pieces(records, offset=self.image.offset, epoch=self.image.epoch)
        only = None if self.only is None else [place for each in self.only for place in _place_in(image, each)]
        return dataclasses.replace(self, image=image, only=only)

    def places(self) -> Iterator[Place]:
        """Yield all partitions, or those that a plan covers."""
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
        """Raise KafkaError for the epoch of an earlier registration of a broker, or for an unregistered broker."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
        if broker.broker_epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"the broker epoch is {broker.broker_epoch}, not {broker_epoch}"
            )


def _place_in(image: MetadataImage, place: Place) -> Iterator[Place]:
    """Yield a partition as it is in another image; nothing if its topic was deleted."""
    topic = image.topic_by_id(place.topic.topic_id)
    if topic is not None:
        yield Place(topic, place.partition_id, topic.partitions[place.partition_id])


def is_elr_enabled(image: MetadataImage) -> bool:
    """Return True if eligible leader replicas are kept (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def directory_of(partition: PartitionImage, broker_id: int) -> UUID:
    """Return the directory id of one of a partition's replicas."""
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

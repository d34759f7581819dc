"""Images and views for tests of the controller's decisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from kwire.chunks import Pieces, at_once
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.plans.configs import Change, changed, check_changes, plan_replacement
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.metadata.image import ConfigResource, MetadataImage, PartitionImage
from kwire.protocol.messages import metadata_records as records

TOPIC_ID = UUID(int=1000)
CONTROLLER = 100
SETTINGS = default_settings()

T = TypeVar("T")


def directory(broker: int, number: int = 0) -> UUID:
    return UUID(int=10_000 + 100 * broker + number)


def epoch(broker: int) -> int:
    """Return the broker epoch that test images use for a broker."""
    return 1000 + broker


def broker_record(broker: int, *, directories: int = 1, **fields: Any) -> records.RegisterBrokerRecord:
    record = records.RegisterBrokerRecord(
        broker_id=broker,
        broker_epoch=epoch(broker),
        incarnation_id=UUID(int=500 + broker),
        fenced=False,
        log_dirs=[directory(broker, number) for number in range(directories)],
    )
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def partition_record(
    replicas: list[int], index: int = 0, *, topic_id: UUID = TOPIC_ID, **fields: Any
) -> records.PartitionRecord:
    record = records.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=5,
        partition_epoch=10,
        directories=[directory(broker) for broker in replicas],
    )
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def topic_config(name: str, key: str, value: str) -> records.ConfigRecord:
    return records.ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name=name, name=key, value=value)


def view_of(batch: Iterable[Any], *, elr: bool = False, settings: Mapping[str, Any] = SETTINGS) -> ControllerView:
    """Return a view of the image that the records make."""
    levels = [records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_4_3_IV0)]
    if elr:
        levels.append(records.FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1))
    image = MetadataImage().apply([*levels, *batch], offset=2000, epoch=1)
    return ControllerView(image=image, settings=settings, controller_id=CONTROLLER)


def one_partition(
    replicas: list[int],
    *,
    elr: bool = False,
    fenced: tuple[int, ...] = (),
    brokers: Iterable[int] = range(1, 7),
    directories: int = 1,
    min_insync: int = 1,
    unclean: bool = False,
    **fields: Any,
) -> ControllerView:
    """Return a view of brokers 1 to 6, and a topic t with one partition."""
    batch: list[Any] = [broker_record(broker, directories=directories, fenced=broker in fenced) for broker in brokers]
    batch += [records.TopicRecord(name="t", topic_id=TOPIC_ID), partition_record(replicas, **fields)]
    batch += [
        topic_config("t", "min.insync.replicas", str(min_insync)),
        topic_config("t", "unclean.leader.election.enable", str(unclean).lower()),
    ]
    return view_of(batch, elr=elr)


def place_of(view: ControllerView, name: str = "t", index: int = 0) -> Place:
    topic = view.image.topics[name]
    return Place(topic, index, topic.partitions[index])


def partition_of(view: ControllerView, name: str = "t", index: int = 0) -> PartitionImage:
    return view.image.topics[name].partitions[index]


def set_fields(record: Any) -> dict[str, Any]:
    """Return the fields that a PartitionChangeRecord or BrokerRegistrationChangeRecord changes."""
    blank = type(record)()
    names = [each.name for each in dataclasses.fields(record)]
    identity = {"topic_id", "partition_id", "broker_id", "broker_epoch"}
    return {
        name: getattr(record, name)
        for name in names
        if name not in identity and getattr(record, name) != getattr(blank, name)
    }


def made_by(view: ControllerView, plan: Callable[..., Pieces[T]], *asked: Any, **options: Any) -> T:
    """Return the result of a plan that runs in steps."""
    return at_once(plan(view, *asked, **options))


def plan_incremental(
    image: MetadataImage, resource: ConfigResource, changes: Sequence[Change], **options: Any
) -> list[Any]:
    """Return the records of an incremental change to one resource."""
    at_once(check_changes(changes))
    after = at_once(changed(resource, image.config_of(*resource), changes))
    return plan_replacement(image, resource, after, **options)

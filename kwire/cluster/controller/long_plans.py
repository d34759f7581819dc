"""Plans over all partitions of the cluster, made in steps and written as one batch.

A plan is made on one image while other tasks run and may change the newest image. Before the plan is written,
is_plan_valid compares the two images. Brokers, features and configurations must be the same, and no topic may have been
deleted. Partitions that have changed are planned again on the newest image, and the result must be the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from kwire.chunks import Pieces, at_once, chunks
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.metadata.image import MetadataImage, PartitionImage
from kwire.cluster.metadata.persistent_map import changed_keys
from kwire.protocol.messages.metadata_records import PartitionChangeRecord

PLACES_AT_ONCE: Final = 2048
"""Partitions that are examined in one step: less than 1 us each."""
PLANNED_AT_ONCE: Final = 64
"""Partitions that are planned in one step: about 25 us each."""
CHECKED_MAX: Final = 256
"""Maximum changed partitions for which a plan is checked: they are planned in one step."""

ATTEMPTS_MAX: Final = 3
"""Attempts to make a plan in steps; after that it is made in one step, because its basis changes too often."""

_KEY: Final = attrgetter("topic_id", "partition_id")
"""Function that returns the topic id and the index of the partition that a record changes."""

Planner = Callable[[ControllerView], Pieces[Sequence[Any]]]
"""Function that returns the records of a plan for a view."""


def places_where(view: ControllerView, concerns: Callable[[PartitionImage], bool]) -> Pieces[list[Place]]:
    """Return the partitions that a change concerns."""
    found: list[Place] = []
    for chunk in chunks(view.places(), PLACES_AT_ONCE):
        found += [place for place in chunk if concerns(place.partition)]
        if len(chunk) == PLACES_AT_ONCE:
            yield
    return found


def records_for(
    places: Sequence[Place], plan: Callable[[Place], PartitionChangeRecord | None]
) -> Pieces[list[PartitionChangeRecord]]:
    """Return the records of the partitions that change."""
    records: list[PartitionChangeRecord] = []
    for chunk in chunks(places, PLANNED_AT_ONCE):
        records += [record for record in map(plan, chunk) if record is not None]
        if len(chunk) == PLANNED_AT_ONCE:
            yield
    return records


def is_plan_valid(
    make: Planner, records: Sequence[Any], made_on: ControllerView, newest: ControllerView, *, is_partial: bool = False
) -> bool:
    """Return True if a plan made on the newer view would be the same; False if too much has changed.

    A partial plan leaves partitions to a later one: it holds if its own records would be the same.
    """
    old, new = made_on.image, newest.image
    if old is new:
        return True
    if (old.brokers, old.features) != (new.brokers, new.features) or old.configs is not new.configs:
        return False
    changed = _changed_places(old, new)
    if changed is None or len(changed) > CHECKED_MAX:
        return False
    keys = {(place.topic.topic_id, place.partition_id) for place in changed}
    before = _changes(records, keys)
    replanned = at_once(make(dataclasses.replace(newest, only=changed)))
    return before == _changes(replanned, set(map(_KEY, before)) if is_partial else keys)


def _changes(records: Sequence[Any], keys: Collection[tuple[UUID, int]]) -> list[PartitionChangeRecord]:
    """Return the changes of these partitions."""
    changes = [each for each in records if isinstance(each, PartitionChangeRecord)]
    return [each for each in changes if _KEY(each) in keys]


def _changed_places(old: MetadataImage, new: MetadataImage) -> list[Place] | None:
    """Return the partitions that have changed; None if a topic was deleted.

    Partition 0 represents its whole topic: the number of its replicas limits min.insync.replicas.
    """
    changed: list[Place] = []
    for name in changed_keys(old.topics, new.topics):
        before, topic = old.topics.get(name), new.topics.get(name)
        if before is not None and (topic is None or topic.topic_id != before.topic_id):
            return None
        assert topic is not None, "the topic is in one of the two images"
        partitions_before = () if before is None else before.partitions
        if partitions_before and len(partitions_before[0].replicas) != len(topic.partitions[0].replicas):
            partitions_before = ()
        pairs = enumerate(zip_longest(partitions_before, topic.partitions))
        changed += [
            Place(topic, index, new_partition)
            for index, (old_partition, new_partition) in pairs
            if old_partition is not new_partition
        ]
    return changed

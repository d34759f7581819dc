"""Interface of server-side assignors: what they are given, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.group.modern.target_assignment import Partitions


class MemberSubscription(NamedTuple):
    """Subscription of one member, and its present target."""

    topic_ids: AbstractSet[UUID]
    """Existing topics to which the member subscribes."""
    target: Partitions
    instance_id: str | None = None
    """group.instance.id of a static member."""
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """Group for which a target assignment is computed."""

    members: Mapping[str, MemberSubscription]
    is_homogeneous: bool
    """True if all members subscribe to the same topics."""
    owners: Mapping[UUID, Mapping[int, str]]
    """Member id by topic id and partition, of the present target."""
    partition_counts: Mapping[UUID, int]
    """Number of partitions of each topic to which a member subscribes."""
    topic_names: Mapping[UUID, str]
    """Name by topic id, at least of these topics. Kafka visits topics in the order of its hash set of names."""
    assignable: Mapping[UUID, AbstractSet[int]] | None = None
    """Partitions that may be assigned, of share groups; None for all."""


Assign = Callable[[AssignmentInput], Pieces[dict[str, Partitions]]]
"""Function that computes a target assignment, in steps of a few milliseconds."""

"""Groups of one shard, with the services that the rules of all kinds of groups need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.cluster.configs.group_configs import GroupConfigs
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.modern.metadata_hash import TopicHashes
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Step
from kwire.coordinator.timers import Timers
from kwire.seams import Clock, RandomSource


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnvironment:
    """Groups of one shard, and the services that their rules need."""

    groups: dict[str, AnyGroup]
    timers: Timers[Step[GroupRecord]]
    clock: Clock
    random_source: RandomSource
    image: Callable[[], MetadataImage]
    """Returns the newest committed metadata."""
    configs: GroupConfigs
    hashes: TopicHashes
    """Hashes of topics, which all shards share."""

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Return True if the present group of this id has a member."""
        group = self.groups.get(group_id)
        return group is not None and member_id in group.members

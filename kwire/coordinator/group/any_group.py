"""Groups of all kinds, which share the names of one coordinator."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.coordinator.group.classic.classic_group import ClassicGroup
from kwire.coordinator.group.consumer import records as consumer_records
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.records import GroupRecord, group_tombstone
from kwire.coordinator.group.share import records as share_records
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.streams import records as streams_records
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.error_codes import ErrorCode, KafkaError

AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

GROUP_TYPES: Mapping[type, str] = {
    ClassicGroup: "classic",
    ConsumerGroup: "consumer",
    ShareGroup: "share",
    StreamsGroup: "streams",
}
"""Names of the kinds of groups in ListGroups."""


def as_classic(group: AnyGroup | None) -> ClassicGroup | None:
    """Return a classic group; None for a group of another kind, which to a classic member does not exist."""
    return group if isinstance(group, ClassicGroup) else None


def consumer_group(groups: Mapping[str, AnyGroup], group_id: str) -> ConsumerGroup:
    """Return a consumer group. Raises GROUP_ID_NOT_FOUND."""
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    raise group_not_found(groups, group_id, "consumer")


def share_group(groups: Mapping[str, AnyGroup], group_id: str) -> ShareGroup:
    """Return a share group. Raises GROUP_ID_NOT_FOUND."""
    group = groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    raise group_not_found(groups, group_id, "share")


def streams_group(groups: Mapping[str, AnyGroup], group_id: str) -> StreamsGroup:
    """Return a streams group. Raises GROUP_ID_NOT_FOUND."""
    group = groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    raise group_not_found(groups, group_id, "streams")


def group_not_found(groups: Mapping[str, AnyGroup], group_id: str, kind: str) -> KafkaError:
    """Return the error for a group that is missing or of another kind."""
    why = f"is not a {kind} group." if group_id in groups else "not found."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}")


def protocol_type(group: AnyGroup) -> str:
    """Return the protocol type of a group; empty for a group that has only committed offsets."""
    if isinstance(group, ClassicGroup):
        return group.protocol_type or ""
    return GROUP_TYPES[type(group)]


def deletion_records(group: AnyGroup) -> list[GroupRecord]:
    """Return tombstones of everything that is stored of an empty group, but its offsets."""
    if isinstance(group, ConsumerGroup):
        return consumer_records.group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_records.group_tombstones(group)
    if isinstance(group, StreamsGroup):
        return streams_records.group_tombstones(group)
    return [group_tombstone(group.group_id)]

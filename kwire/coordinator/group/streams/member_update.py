"""Update of a streams group by one member's heartbeat, and the records of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupStatus


@dataclass(slots=True, kw_only=True)
class MemberUpdate:
    """Update of one member. The group itself changes when the records are replayed."""

    group: StreamsGroup
    before: StreamsMember
    """The member as it is stored, or a new one."""
    after: StreamsMember
    epoch: int
    """Group epoch after the update."""
    bumps: bool = False
    """True if the group needs a new assignment."""
    records: list[GroupRecord] = field(default_factory=list)
    statuses: list[StreamsGroupStatus] = field(default_factory=list)

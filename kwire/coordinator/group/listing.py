"""ListGroups for groups of all kinds, and DescribeGroups for classic groups."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.coordinator.group.any_group import GROUP_TYPES, AnyGroup, protocol_type
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.streams.streams_group import StreamsGroupState
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_groups import DescribeGroupsDescribedGroup
from kwire.protocol.messages.list_groups import ListedGroup

NOT_READY = "not_ready"


def listed_groups(
    groups: Iterable[AnyGroup], states_filter: Iterable[str], types_filter: Iterable[str]
) -> list[ListedGroup]:
    """Return the groups that match both filters, ignoring case; an empty filter matches all."""
    states = {state.strip().lower() for state in states_filter}
    types = {kind.lower() for kind in types_filter}
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=protocol_type(group),
            group_state=group.state.value,
            group_type=GROUP_TYPES[type(group)],
        )
        for group in groups
        if (not states or not states.isdisjoint(_state_names(group)))
        and (not types or GROUP_TYPES[type(group)] in types)
    ]


def _state_names(group: AnyGroup) -> tuple[str, ...]:
    """Return the names by which a filter selects the group: Kafka's brokers know NotReady as not_ready."""
    name = group.state.value.lower()
    return (name, NOT_READY) if group.state is StreamsGroupState.NOT_READY else (name,)


def described_group(group_id: str, group: AnyGroup | None, *, version: int) -> DescribeGroupsDescribedGroup:
    """Describe a classic group; any other is Dead, and since version 6 also an error (KIP-1043)."""
    if not isinstance(group, ClassicGroup):
        described = DescribeGroupsDescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= 6:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = (
                f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
            )
        return described
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribeGroupsDescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[member.described(protocol) for member in group.members.values()],
    )


def rejected_description(group_id: str, code: ErrorCode) -> DescribeGroupsDescribedGroup:
    return DescribeGroupsDescribedGroup(group_id=group_id, error_code=code)

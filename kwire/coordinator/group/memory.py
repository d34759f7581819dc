"""What groups may take of memory by the wishes of their clients: what JoinGroup leaves behind, and empty commits.

A member's metadata may be as large as a request, ids are anybody's choice, and both stay until a session ends. So each
join is counted before it is let in. What leaves is not counted back: when the count reaches the limit, all groups are
weighed anew, and only if they do fill it are joins refused (with an error that clients try again after), until sessions
have ended. A member that comes back with little is always let in: it is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getsizeof

from kwire.coordinator.group.classic_group import ClassicGroup
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.seams import Clock

GROUP_BYTES = 2_500
MEMBER_BYTES = 2_500
"""What there is besides what clients send; timers and answers included."""
LITTLE_BYTES = 16 * 1024
WEIGH_PAUSE_MS = 1_000
"""All groups are not weighed more often than this."""


class GroupMemory:
    """A bound on all groups of a coordinator."""

    def __init__(self, limit_bytes: int, groups: Callable[[], Iterable[ClassicGroup]], clock: Clock) -> None:
        self._limit_bytes = limit_bytes
        self._groups = groups
        self._clock = clock
        self._counted = limit_bytes
        """At least what the groups take. What was loaded is weighed with the first join."""
        self._weighed_ms = float("-inf")

    def has_room(self, request: JoinGroupRequest, client_id: str, *, is_member: bool) -> bool:
        """Whether a join may be let in; counts it then."""
        size = _weight_of_join(request, client_id)
        return self._count(size, is_always_let_in=is_member and size <= LITTLE_BYTES)

    def has_room_for_group(self, group_id: str) -> bool:
        """Return True if a group may be made that has no record, as by a commit of no offset; count it then."""
        return self._count(GROUP_BYTES + getsizeof(group_id), is_always_let_in=False)

    def _count(self, size: int, *, is_always_let_in: bool) -> bool:
        if self._counted + size > self._limit_bytes:
            self._weigh()
        if self._counted + size > self._limit_bytes and not is_always_let_in:
            return False
        self._counted += size
        return True

    def _weigh(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._weighed_ms >= WEIGH_PAUSE_MS:
            self._weighed_ms = now_ms
            self._counted = sum(_weight(group) for group in self._groups())


def _weight_of_join(request: JoinGroupRequest, client_id: str) -> int:
    names = getsizeof(request.group_id) + 2 * getsizeof(client_id) + getsizeof(request.group_instance_id)
    protocols = sum(len(protocol.metadata) + getsizeof(protocol.name) + 100 for protocol in request.protocols)
    return GROUP_BYTES + MEMBER_BYTES + names + getsizeof(request.protocol_type) + protocols


def _weight(group: ClassicGroup) -> int:
    pending = sum(getsizeof(member_id) + MEMBER_BYTES for member_id in group.pending_join)
    members = sum(
        MEMBER_BYTES
        + getsizeof(member.member_id)
        + getsizeof(member.client_id)
        + len(member.assignment)
        + sum(len(metadata) + getsizeof(name) + 100 for name, metadata in member.protocols)
        for member in group.members.values()
    )
    return GROUP_BYTES + getsizeof(group.group_id) + pending + members

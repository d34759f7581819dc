"""Memory limit for state that clients create in groups: JoinGroup requests, and commits without offsets.

A member's metadata may be as large as a request, clients choose ids freely, and both stay until a session ends. Each
join is therefore counted before it is accepted. Removals are not subtracted. When the count reaches the limit, the
sizes of all groups are computed again. Only if they really reach the limit are joins rejected, with a retriable error,
until sessions have ended. A member that rejoins with little data is always accepted, since it is already counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getsizeof

from kwire.coordinator.group.classic_group import ClassicGroup
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.seams import Clock

GROUP_BYTES = 2_500
MEMBER_BYTES = 2_500
"""Memory besides the data that clients send, including timers and answers."""
LITTLE_BYTES = 16 * 1024
RECOUNT_INTERVAL_MS = 1_000
"""Minimum time between two computations of all groups' sizes."""


class GroupMemory:
    """Memory limit for all groups of a coordinator."""

    def __init__(self, limit_bytes: int, groups: Callable[[], Iterable[ClassicGroup]], clock: Clock) -> None:
        self._limit_bytes = limit_bytes
        self._groups = groups
        self._clock = clock
        self._counted = limit_bytes
        """Upper bound of the groups' memory. Loaded groups are counted with the first join."""
        self._recounted_ms = float("-inf")

    def reserve(self, request: JoinGroupRequest, client_id: str, *, is_member: bool) -> bool:
        """Return True if a join may be accepted, and count it in that case."""
        size = _size_of_join(request, client_id)
        return self._count(size, is_exempt=is_member and size <= LITTLE_BYTES)

    def reserve_group(self, group_id: str) -> bool:
        """Return True if a group without a record may be created, as by an empty commit; count it in that case."""
        return self._count(GROUP_BYTES + getsizeof(group_id), is_exempt=False)

    def _count(self, size: int, *, is_exempt: bool) -> bool:
        if self._counted + size > self._limit_bytes:
            self._recount()
        if self._counted + size > self._limit_bytes and not is_exempt:
            return False
        self._counted += size
        return True

    def _recount(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._recounted_ms >= RECOUNT_INTERVAL_MS:
            self._recounted_ms = now_ms
            self._counted = sum(_size_of_group(group) for group in self._groups())


def _size_of_join(request: JoinGroupRequest, client_id: str) -> int:
    names = getsizeof(request.group_id) + 2 * getsizeof(client_id) + getsizeof(request.group_instance_id)
    protocols = sum(len(protocol.metadata) + getsizeof(protocol.name) + 100 for protocol in request.protocols)
    return GROUP_BYTES + MEMBER_BYTES + names + getsizeof(request.protocol_type) + protocols


def _size_of_group(group: ClassicGroup) -> int:
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

"""Checks of member epochs in OffsetCommit, TxnOffsetCommit and OffsetFetch of streams groups (KIP-1071).

A member commits with the epoch of its last heartbeat, or with an older one for active tasks that it has had since.
"""

from __future__ import annotations

from uuid import UUID

from kwire.coordinator.group.consumer.commit_checks import MEMBER_EPOCH_SINCE, CheckPartition
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.topology import Topology
from kwire.protocol.error_codes import ErrorCode, KafkaError

_NO_EPOCHS: dict[int, int] = {}


def check_streams_commit(
    group: StreamsGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    *,
    version: int,
    in_transaction: bool = False,
) -> CheckPartition | None:
    """Check a commit to a group; return the check that each partition needs, or None.

    Raises UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION or STALE_MEMBER_EPOCH.
    """
    if epoch < 0 and group.is_empty:
        return None
    if in_transaction and epoch == -1 and not member_id and instance_id is None:
        return None
    member = group.member(member_id)
    if not in_transaction and version < MEMBER_EPOCH_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the streams group protocol",
        )
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        raise _stale(f"epoch {epoch} is newer than that of the member, {member.member_epoch}")
    if group.topology is None:
        raise _stale("the topology is not available")
    return _partition_check(group.topology, member, epoch)


def _partition_check(topology: Topology, member: StreamsMember, epoch: int) -> CheckPartition:
    def check_partition(topic: str, _: UUID, partition: int) -> None:
        subtopology = topology.sources.get(topic)
        if subtopology is None:
            raise _stale(f"topic {topic} is not in the topology")
        assigned = member.assigned.active.get(subtopology, _NO_EPOCHS).get(partition)
        if assigned is None:
            assigned = member.pending_revocation.active.get(subtopology, _NO_EPOCHS).get(partition)
        if assigned is None:
            raise _stale(f"task {subtopology}_{partition} is not assigned to the member")
        if epoch < assigned:
            raise _stale(f"task {subtopology}_{partition} was assigned at epoch {assigned}, after {epoch}")

    return check_partition


def check_streams_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> None:
    """Check an OffsetFetch that names a member. Raises UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH."""
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if epoch != member.member_epoch:
        raise _stale(f"epoch {epoch} is not that of the member, {member.member_epoch}")


def _stale(why: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, why)

"""Checks of member epochs in OffsetCommit, TxnOffsetCommit and OffsetFetch (KIP-848, KIP-1251).

A member commits with the epoch of its last heartbeat, or with an older one for partitions that it has held since then.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.protocol.error_codes import ErrorCode, KafkaError

MEMBER_EPOCH_SINCE = 9
"""Version of OffsetCommit since which a member may commit with its epoch."""

CheckPartition = Callable[[str, UUID, int], None]
"""Check of one partition, by topic name, topic id and index. Raises KafkaError."""


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    *,
    version: int,
    in_transaction: bool = False,
) -> CheckPartition | None:
    """Check a commit to a group; return the check that each partition needs, or None.

    Raises UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, or STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for classic members).
    """
    if epoch < 0 and group.is_empty:
        return None
    if in_transaction and epoch == -1 and not member_id and instance_id is None:
        return None
    member = group.member(member_id)
    if not in_transaction and not member.uses_classic_protocol and version < MEMBER_EPOCH_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        raise _stale(member, f"epoch {epoch} is newer than that of the member, {member.member_epoch}")

    def check_partition(topic: str, topic_id: UUID, partition: int) -> None:
        assigned = member.assigned_partitions.get(topic_id, {}).get(partition)
        if assigned is None:
            assigned = member.partitions_pending_revocation.get(topic_id, {}).get(partition)
        if assigned is None:
            raise _stale(member, f"{topic}-{partition} is not assigned to the member")
        if epoch < assigned:
            raise _stale(member, f"{topic}-{partition} was assigned at epoch {assigned}, after {epoch}")

    return check_partition


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Check an OffsetFetch that names a member. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION."""
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if epoch != member.member_epoch:
        raise _stale(member, f"epoch {epoch} is not that of the member, {member.member_epoch}")


def _stale(member: ConsumerMember, why: str) -> KafkaError:
    code = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(code, why)

"""Member of a consumer group (KIP-848), and its records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

from kwire.protocol.messages.consumer_group_records import (
    ConsumerGroupClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)

LEAVE_EPOCH = -1
"""Member epoch of a member that leaves its group."""
LEAVE_STATIC_EPOCH = -2
"""Member epoch of a static member that leaves and will rejoin."""

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch at which it was assigned. No inner mapping is empty."""

NO_PARTITIONS: PartitionEpochs = MappingProxyType({})
NO_TOPICS: frozenset[str] = frozenset()


def _no_partitions() -> PartitionEpochs:
    return NO_PARTITIONS


class MemberState(IntEnum):
    """State of a member's reconciliation, with its number in records."""

    STABLE = 0
    """The member has the partitions of its epoch's target assignment."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions before it moves to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members still own."""
    UNKNOWN = 127
    """A state of a newer version; the member must rejoin without partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """Member of a consumer group; immutable, each change makes a new one."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    """Epoch before the last change; accepted because the response with the new one may have been lost."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = NO_TOPICS
    subscribed_topic_regex: str | None = ""
    """Regular expression of the topics; None or empty without one."""
    server_assignor: str | None = None
    assigned_partitions: PartitionEpochs = field(default_factory=_no_partitions)
    partitions_pending_revocation: PartitionEpochs = field(default_factory=_no_partitions)
    classic_metadata: ConsumerGroupClassicMemberMetadata | None = None
    """Session timeout and protocols of a member that uses the classic protocol; None for all others."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic_metadata is not None

    @property
    def classic_protocol_names(self) -> set[str]:
        """Names of the protocols that a classic member supports, each once."""
        return set() if self.classic_metadata is None else {it.name for it in self.classic_metadata.supported_protocols}

    @property
    def regex(self) -> str | None:
        """Regular expression of the topics; None without one."""
        return self.subscribed_topic_regex or None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def with_assignment(
        self,
        member_epoch: int,
        assigned: PartitionEpochs,
        pending_revocation: PartitionEpochs,
        state: MemberState,
    ) -> ConsumerMember:
        """Return the member with another assignment; its current epoch becomes the previous one."""
        return dataclasses.replace(
            self,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            assigned_partitions=assigned,
            partitions_pending_revocation=pending_revocation,
            state=state,
        )

    def as_departed_static(self) -> ConsumerMember:
        """Return a static member that has left and may return; its partitions count as assigned from epoch 0."""
        return dataclasses.replace(
            self,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned_partitions={topic: dict.fromkeys(epochs, 0) for topic, epochs in self.assigned_partitions.items()},
            partitions_pending_revocation=NO_PARTITIONS,
        )

    def replaced_by(self, member_id: str) -> ConsumerMember:
        """Return the static member with the id of the instance that replaces it."""
        return dataclasses.replace(self, member_id=member_id, member_epoch=0, previous_member_epoch=0)

    # --- records

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topic_names),
            subscribed_topic_regex=self.subscribed_topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic_metadata,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_recorded(self.assigned_partitions),
            partitions_pending_revocation=_recorded(self.partitions_pending_revocation),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """Return the member with the metadata of a replayed record."""
        return dataclasses.replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic_metadata=value.classic_member_metadata,
        )

    def with_recorded_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """Return the member with the assignment of a replayed record."""
        known = value.state in (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
        return dataclasses.replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned_partitions=_replayed(value.assigned_partitions, value.member_epoch),
            partitions_pending_revocation=_replayed(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        """Return the member after a tombstone of its assignment."""
        return dataclasses.replace(
            self,
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned_partitions=NO_PARTITIONS,
            partitions_pending_revocation=NO_PARTITIONS,
        )


def metadata_key(group_id: str, member_id: str) -> ConsumerGroupMemberMetadataKey:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def assignment_key(group_id: str, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _recorded(assigned: PartitionEpochs) -> list[ConsumerGroupCurrentPartitions]:
    return [
        ConsumerGroupCurrentPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in assigned.items()
    ]


def _replayed(recorded: Iterable[Any], member_epoch: int) -> PartitionEpochs:
    """Return the partitions of a record; brokers before Kafka 4.2 wrote no epochs, so the member's own is used."""
    default_epoch = max(member_epoch, 0)
    assigned: dict[UUID, dict[int, int]] = {}
    for topic in recorded:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default_epoch] * len(topic.partitions)
        if topic.partitions:
            assigned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned

"""AlterPartition: a leader proposes the in-sync set, and the controller stores it if it is valid.

The request names the state that it is based on: the leader, the leader epoch and the partition epoch. A request based
on an old state is rejected. A broker cannot join if it is fenced, shutting down, or another process than the one that
fetched from the leader (KIP-841, KIP-903).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from kwire.chunks import Pieces, mapped_by_group
from kwire.cluster.controller.election import Election
from kwire.cluster.controller.plans.partition_changes import RECOVERED, RECOVERING, Target, plan_partition_change
from kwire.cluster.controller.requested_changes import RequestedChanges
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.metadata.image import UNCHANGED_LEADER, PartitionImage
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

EPOCHS_SINCE_VERSION = 3
UNCHECKED_EPOCH = -1
"""Broker epoch that the leader does not know, which is not checked."""


class IsrChanges(RequestedChanges):
    """In-sync changes of one request, planned in pieces; a repeated partition is checked after its first change."""

    def __init__(self, request: AlterPartitionRequest, view: ControllerView, *, version: int) -> None:
        self._request = request
        self._version = version
        super().__init__(view)

    def begin(self, view: ControllerView) -> None:
        """Like RequestedChanges.begin. Raises KafkaError STALE_BROKER_EPOCH."""
        view.check_broker_epoch(self._request.broker_id, self._request.broker_epoch)
        super().begin(view)

    def answer(self) -> Pieces[AlterPartitionResponse]:
        """Add the records of the valid changes to `records`, and return the response."""
        topics = yield from mapped_by_group(
            self._request.topics,
            lambda topic: topic.partitions,
            lambda topic, asked: self._add(topic.topic_id, asked),
            lambda topic, results: AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=results),
        )
        return AlterPartitionResponse(topics=topics)

    def _add(self, topic_id: UUID, asked: AlterPartitionRequestPartitionData) -> AlterPartitionResponsePartitionData:
        index = asked.partition_index
        topic = self._view.image.topic_by_id(topic_id)
        if topic is None:
            return _rejected(index, ErrorCode.UNKNOWN_TOPIC_ID)
        if not 0 <= index < len(topic.partitions):
            return _rejected(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        place = self._place(topic, index)
        members = asked.new_isr_with_epochs
        if self._version < EPOCHS_SINCE_VERSION:
            members = [AlterPartitionBrokerState(broker_id=broker) for broker in asked.new_isr]
        rejection = _rejection_code(self._view, self._request.broker_id, place.partition, asked, members)
        if rejection is not None:
            return _rejected(index, rejection)
        target = Target(
            isr=tuple(member.broker_id for member in members),
            leader_recovery_state=asked.leader_recovery_state,
            election=Election.UNCLEAN if self._view.allows_unclean_election(topic) else Election.ONLINE,
        )
        record = plan_partition_change(self._view, place, target)
        partition = self._add_record(place, record).partition
        if record is not None and record.leader not in (UNCHANGED_LEADER, self._request.broker_id):
            # The change completed a reassignment that removes the leader's own replica.
            return _rejected(index, ErrorCode.NEW_LEADER_ELECTED)
        return AlterPartitionResponsePartitionData(
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition.partition_epoch,
        )


def _rejected(index: int, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=index, error_code=code)


def _rejection_code(
    view: ControllerView,
    leader: int,
    partition: PartitionImage,
    asked: AlterPartitionRequestPartitionData,
    members: Sequence[AlterPartitionBrokerState],
) -> ErrorCode | None:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        # A leader with newer epochs than this controller has received them from a newer controller.
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_possible(leader, partition, asked, [member.broker_id for member in members]):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(view, member) for member in members):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_possible(
    leader: int, partition: PartitionImage, asked: AlterPartitionRequestPartitionData, isr: Sequence[int]
) -> bool:
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or leader not in isr:
        return False
    if asked.leader_recovery_state == RECOVERING:
        # A recovering leader is the only in-sync replica. AlterPartition cannot set RECOVERING; an unclean election
        # does.
        return len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    return asked.leader_recovery_state == RECOVERED


def _is_eligible(view: ControllerView, member: AlterPartitionBrokerState) -> bool:
    return view.is_active(member.broker_id) and member.broker_epoch in (
        UNCHECKED_EPOCH,
        view.image.brokers[member.broker_id].broker_epoch,
    )

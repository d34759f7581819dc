"""Checks of the fields of a ConsumerGroupHeartbeat, before its group is looked up."""

from __future__ import annotations

from collections.abc import Collection

from kwire.coordinator.group.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from kwire.coordinator.group.request_checks import check_length, check_not_blank, invalid
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_ID_FROM_CLIENT_SINCE = 1
"""Version since which the client generates the member id (KIP-1082)."""


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, with Kafka's messages."""
    epoch = request.member_epoch
    if version >= MEMBER_ID_FROM_CLIENT_SINCE or epoch > 0 or epoch == LEAVE_EPOCH:
        check_not_blank(request.member_id, "MemberId can't be empty.")
    check_not_blank(request.group_id, "GroupId can't be empty.")
    check_not_blank(request.instance_id, "InstanceId can't be empty.")
    check_not_blank(request.rack_id, "RackId can't be empty.")
    check_length(request.member_id, "MemberId")
    check_length(request.instance_id, "InstanceId")
    check_length(request.rack_id, "RackId")
    if epoch == 0:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        names = ", ".join(assignors)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {names}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")

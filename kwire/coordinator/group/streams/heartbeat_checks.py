"""Checks of the fields of a StreamsGroupHeartbeat, before its group is looked up and after its topology is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.coordinator.group.request_checks import check_length, check_not_blank, invalid
from kwire.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from kwire.coordinator.group.streams.member import LEAVE_STATIC_EPOCH, StreamsMember
from kwire.coordinator.group.streams.tasks import TaskEpochs, TaskSets
from kwire.coordinator.group.streams.topology import (
    ELEMENTS_MAX,
    check_names,
    count_elements,
    invalid_topology,
    too_many_elements,
)
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopology,
)

TAGS_MAX = 1_000
"""Most client tags of a member; Kafka Streams sends at most five."""
TaskIds = Sequence[StreamsGroupHeartbeatTaskIds]


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY, with Kafka's messages."""
    _check_supported(request)
    check_not_blank(request.member_id, "MemberId can't be empty.")
    check_not_blank(request.group_id, "GroupId can't be empty.")
    check_not_blank(request.rack_id, "RackId can't be empty.")
    _check_lengths(request)
    epoch = request.member_epoch
    if epoch == 0:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH:
        raise invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(each is not None for each in tasks) and None in tasks:
        raise invalid("If one task-type is non-null, all must be non-null.")
    if epoch != 0 and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_lengths(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for texts that are too long."""
    check_length(request.member_id, "MemberId")
    check_length(request.rack_id, "RackId")
    check_length(request.process_id, "ProcessId")
    if request.user_endpoint is not None:
        check_length(request.user_endpoint.host, "UserEndpoint")
    if request.client_tags is not None and len(request.client_tags) > TAGS_MAX:
        raise invalid(f"The member has {len(request.client_tags)} client tags; this broker accepts at most {TAGS_MAX}.")
    for tag in request.client_tags or ():
        check_length(tag.key, "ClientTags")
        check_length(tag.value, "ClientTags")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for a feature that Kafka 4.3 does not support yet."""
    if request.instance_id is not None:
        raise invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise invalid("Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    for kind, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise invalid(f"{kind} must be empty when (re-)joining.")
    if request.topology is None:
        raise invalid("Topology must be non-null when (re-)joining.")
    if request.topology.epoch < 0:
        raise invalid_topology("Topology epoch must be non-negative.")
    elements = count_elements(request.topology)
    if elements > ELEMENTS_MAX:
        raise invalid_topology(too_many_elements(elements))
    check_names(request.topology)
    _check_changelogs(request.topology)


def _check_changelogs(topology: StreamsGroupHeartbeatTopology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )


def check_tasks(subtopologies: Mapping[str, ConfiguredSubtopology], request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST if the client reports a task that does not exist."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in tasks or ():
            subtopology = subtopologies.get(each.subtopology_id)
            if subtopology is None:
                raise invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
            for partition in each.partitions:
                if not 0 <= partition < subtopology.task_count:
                    raise invalid(
                        f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.task_count}"
                    )


def check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the client is at the member's epoch, or at the one before.

    The previous epoch is accepted if the client owns nothing that the member has lost: it missed a response.
    """
    epoch = request.member_epoch
    if epoch in (0, member.member_epoch):
        return
    if epoch > member.member_epoch:
        raise _fenced(member, epoch, "greater")
    assigned = member.assigned
    if (
        epoch != member.previous_member_epoch
        or not _owns_only_assigned(request.active_tasks, assigned.active)
        or not _owns_only_assigned(request.standby_tasks, assigned.standby)
        or not _owns_only_assigned(request.warmup_tasks, assigned.warmup)
    ):
        raise _fenced(member, epoch, "smaller")


def _fenced(member: StreamsMember, epoch: int, size: str) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _owns_only_assigned(owned: TaskIds | None, assigned: TaskSets | TaskEpochs) -> bool:
    if owned is None:
        return False
    return all(
        each.subtopology_id in assigned
        and all(partition in assigned[each.subtopology_id] for partition in each.partitions)
        for each in owned
    )

"""StreamsGroupHeartbeat: join, stay in and leave a streams group (KIP-1071)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kwire.coordinator.group.any_group import streams_group
from kwire.coordinator.group.classic.classic_group import ClassicGroup
from kwire.coordinator.group.client import Client
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord, group_tombstone
from kwire.coordinator.group.streams import records
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology, InternalTopic
from kwire.coordinator.group.streams.endpoints import endpoint_partitions
from kwire.coordinator.group.streams.heartbeat_checks import check_epoch, check_heartbeat
from kwire.coordinator.group.streams.member import LEAVE_EPOCH, Endpoint, StreamsMember, replayed_tasks
from kwire.coordinator.group.streams.member_update import MemberUpdate
from kwire.coordinator.group.streams.prepared_topology import PreparedTopology
from kwire.coordinator.group.streams.reconciliation import Reconciliation
from kwire.coordinator.group.streams.settings import StreamsGroupConfig, StreamsGroupSettings
from kwire.coordinator.group.streams.statuses import Status
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.task_assignments import TaskAssignments
from kwire.coordinator.group.streams.tasks import TaskEpochs, Tasks, TaskSets
from kwire.coordinator.group.streams.timeouts import StreamsTimeouts
from kwire.coordinator.group.streams.topology_updates import TopologyUpdates
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatTaskIds,
)

logger = logging.getLogger(__name__)

NO_TOPICS: Mapping[str, InternalTopic] = {}


class StreamsHeartbeat(NamedTuple):
    """Result of a heartbeat."""

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = NO_TOPICS
    """Internal topics that must be created, by name."""


HeartbeatWrite = Write[GroupRecord, StreamsHeartbeat]


class StreamsHeartbeats:
    """Rules of StreamsGroupHeartbeat for the groups of one shard."""

    def __init__(self, environment: GroupEnvironment, config: Callable[[], StreamsGroupConfig]) -> None:
        self._environment = environment
        self._config = config
        self.timeouts = StreamsTimeouts(environment)
        self.topologies = TopologyUpdates(environment)
        self._assignments = TaskAssignments(environment, self.timeouts)

    def loaded(self, group: StreamsGroup) -> None:
        """Start the timeouts of a group's members after its records have been replayed."""
        for member in group.members.values():
            self.timeouts.restart_session(group.group_id, member.member_id)
            self.timeouts.follow_revocation(group.group_id, member)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, prepared: PreparedTopology | None = None
    ) -> HeartbeatWrite:
        """Return the records and the response of a heartbeat. Raises KafkaError."""
        check_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        return self._join_or_stay(request, client, prepared)

    # --- join and stay

    def _join_or_stay(
        self, request: StreamsGroupHeartbeatRequest, client: Client, prepared: PreparedTopology | None
    ) -> HeartbeatWrite:
        written: list[GroupRecord] = []
        group = self._group(request, written)
        before = self._find_member(group, request)
        after = _updated(before, request, client)
        update = MemberUpdate(group=group, before=before, after=after, epoch=group.epoch, records=written)
        if after != before:
            update.records.append(records.member_record(group.group_id, after))
            update.bumps = True
        configured = self.topologies.update(update, request, prepared)
        settings = self._environment.configs.of(group.group_id, StreamsGroupSettings)
        target_epoch, target = self._assignments.assign(update, configured, settings.standby_replicas)
        reconciled = self._reconcile(update, target_epoch, target, request)
        self.timeouts.restart_session(group.group_id, request.member_id)
        if request.shutdown_application:
            _request_shutdown(group, request.member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            status=_statuses(update, configured),
        )
        self._add_tasks(response, update, request, reconciled)
        self._add_endpoints(response, update, request, reconciled, configured)
        return Write(answer=StreamsHeartbeat(response, configured.missing), records=update.records)

    def _group(self, request: StreamsGroupHeartbeatRequest, written: list[GroupRecord]) -> StreamsGroup:
        """Return the group of a heartbeat, which a member that joins creates; it may replace an empty classic group.

        Raises GROUP_ID_NOT_FOUND.
        """
        group_id = request.group_id
        group = self._environment.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        joins = request.member_epoch == 0
        if group is None and joins:
            return StreamsGroup(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if not (joins and isinstance(group, ClassicGroup) and group.is_empty):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        written.append(group_tombstone(group_id))
        logger.info("group %s: the empty classic group becomes a streams group", group_id)
        return StreamsGroup(group_id)

    def _find_member(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
        """Return the member of a heartbeat, or a new one. Raises KafkaError."""
        member_id = request.member_id
        if request.member_epoch != 0:
            member = group.member(member_id)
            check_epoch(member, request)
            return member
        limit = self._config().max_size
        if member_id in group.members:
            return group.members[member_id]
        if len(group.members) >= limit:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {limit} members.",
            )
        logger.info("group %s: member %s joins", group.group_id, member_id)
        return StreamsMember(member_id=member_id)

    def _reconcile(
        self, update: MemberUpdate, target_epoch: int, target: Tasks, request: StreamsGroupHeartbeatRequest
    ) -> StreamsMember:
        """Return the member after the next step towards its target."""
        group, member = update.group, update.after
        if member.is_reconciled_to(target_epoch):
            return member
        reconciled = Reconciliation(
            member, target_epoch=target_epoch, target=target, processes=group.processes, owned=_owned(request)
        ).next_member()
        if reconciled != member:
            update.records.append(records.assignment_record(group.group_id, reconciled))
            self.timeouts.follow_revocation(group.group_id, reconciled)
        return reconciled

    # --- response

    def _add_tasks(
        self,
        response: StreamsGroupHeartbeatResponse,
        update: MemberUpdate,
        request: StreamsGroupHeartbeatRequest,
        reconciled: StreamsMember,
    ) -> None:
        """Add the tasks if the member joins, or if they have changed."""
        if request.member_epoch != 0 and reconciled.assigned == update.before.assigned:
            return
        response.active_tasks = _task_ids(reconciled.assigned.active)
        response.standby_tasks = _task_ids(reconciled.assigned.standby)
        response.warmup_tasks = _task_ids(reconciled.assigned.warmup)
        if reconciled.endpoint is not None:
            update.group.endpoint_epoch += 1

    def _add_endpoints(
        self,
        response: StreamsGroupHeartbeatResponse,
        update: MemberUpdate,
        request: StreamsGroupHeartbeatRequest,
        reconciled: StreamsMember,
        configured: ConfiguredTopology,
    ) -> None:
        """Add the endpoints if they have changed since the member received them."""
        group = update.group
        if group.endpoint_epoch != request.endpoint_information_epoch:
            image = self._environment.image()
            response.partitions_by_user_endpoint = endpoint_partitions(group, reconciled, configured, image)
        if self._environment.groups.get(group.group_id) is group:  # a new group begins with epoch 0 again
            response.endpoint_information_epoch = group.endpoint_epoch

    # --- leave

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> HeartbeatWrite:
        group = streams_group(self._environment.groups, request.group_id)
        if request.shutdown_application:
            _request_shutdown(group, request.member_id)
        group.member(request.member_id)  # raises
        logger.info("group %s: member %s leaves", group.group_id, request.member_id)

        def outcome(error: KafkaError | None) -> None:
            if error is None and not self._environment.has_member(group.group_id, request.member_id):
                self.timeouts.cancel(group.group_id, request.member_id)

        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        removed = records.removal_records(group, request.member_id)
        return Write(answer=StreamsHeartbeat(response), records=removed, outcome=outcome)


def _request_shutdown(group: StreamsGroup, member_id: str) -> None:
    if group.shutdown_requested_by is None:
        logger.info("group %s: member %s asks the whole application to shut down", group.group_id, member_id)
        group.shutdown_requested_by = member_id


def _statuses(update: MemberUpdate, configured: ConfiguredTopology) -> list[Any]:
    """Return the statuses of the update, of the topology, and of a requested shutdown."""
    statuses = update.statuses
    if configured.rejection is not None:
        statuses.append(configured.rejection.status.with_detail(configured.rejection.message))
    if update.group.shutdown_requested_by is not None:
        statuses.append(
            Status.SHUTDOWN_APPLICATION.with_detail(
                f"Streams group member {update.group.shutdown_requested_by} encountered a fatal error and requested a "
                "shutdown for the entire application."
            )
        )
    return statuses


def _updated(member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client) -> StreamsMember:
    """Return the member with the fields of a request; None and -1 mean unchanged."""
    changes: dict[str, Any] = {}
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.topology is not None:
        changes["topology_epoch"] = request.topology.epoch
    if request.process_id is not None:
        changes["process_id"] = request.process_id
    if request.user_endpoint is not None:
        changes["endpoint"] = Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    if request.client_tags is not None:
        changes["client_tags"] = {tag.key: tag.value for tag in request.client_tags}
    if not changes and member.client_id == client.client_id and member.client_host == client.host:
        return member
    return dataclasses.replace(member, client_id=client.client_id, client_host=client.host, **changes)


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the client reports to own, or None if it does not report them."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(replayed_tasks(active), replayed_tasks(standby), replayed_tasks(warmup))


def _task_ids(tasks: TaskSets | TaskEpochs) -> list[StreamsGroupHeartbeatTaskIds]:
    return [
        StreamsGroupHeartbeatTaskIds(subtopology_id=subtopology, partitions=sorted(tasks[subtopology]))
        for subtopology in sorted(tasks)
    ]

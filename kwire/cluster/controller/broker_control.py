"""The active controller's API for brokers: registrations, heartbeats, and changes of partitions.

A change of a broker is planned with all its partitions and written as one batch. Requests that name partitions are
planned in pieces; each piece is planned on the newest image and is a batch of its own.

The state from heartbeats is not stored. A new active controller gives every unfenced broker a whole session.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from kwire.chunks import Pieces, at_once, in_turns, turn
from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.controller.heartbeats import (
    BrokerIncarnation,
    BrokerSessions,
    Decision,
    changes_partitions,
    decide,
    plan_expiry,
    plan_heartbeat,
)
from kwire.cluster.controller.long_plans import ATTEMPTS_MAX, Planner, is_plan_valid
from kwire.cluster.controller.plans.broker_changes import plan_unregistration
from kwire.cluster.controller.plans.isr_changes import IsrChanges
from kwire.cluster.controller.plans.leader_elections import (
    ELECTIONS_PER_SWEEP_MAX,
    Elections,
    plan_preferred_leaders,
    plan_unclean_leaders,
)
from kwire.cluster.controller.plans.producer_ids import plan_producer_ids
from kwire.cluster.controller.plans.reassignments import Reassignments
from kwire.cluster.controller.plans.registration import (
    check_broker_registration,
    plan_broker_registration,
    plan_controller_registration,
    registration_record,
)
from kwire.cluster.controller.plans.replica_directories import DirectoryAssignments
from kwire.cluster.controller.requested_changes import RequestedChanges
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.metadata.prepared_records import PreparedRecords, prepare, prepare_in_pieces, prepared_with
from kwire.cluster.metadata.registrations import BrokerRegistration
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.protocol.messages.broker_registration import BrokerRegistrationRequest
from kwire.protocol.messages.controller_registration import ControllerRegistrationRequest
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kwire.seams import Clock

logger = logging.getLogger(__name__)

PLAN_BYTES_MAX = 64 * 1024 * 1024
"""Maximum size of a batch for a broker's start or stop: it has a record for each partition of the broker."""
CHECKS_PER_SESSION = 4
"""Minimum number of checks for expired sessions within one session timeout."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """Settings of the controller's periodic work, and of broker sessions."""

    imbalance_check_seconds: int = setting("leader.imbalance.check.interval.seconds")
    rebalances_leaders: bool = setting("auto.leader.rebalance.enable")
    unclean_election_interval_ms: int = setting("unclean.leader.election.interval.ms")
    session_timeout_ms: int = setting("broker.session.timeout.ms")


class BrokerControl:
    """The active controller's API for brokers. On other controllers, all methods raise NOT_CONTROLLER."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        clock: Clock,
        settings: CurrentSettings,
        controller_id: int,
        cluster_id: str,
        local_broker_incarnation: UUID | None,
    ) -> None:
        """Create the API. `settings` follow the committed image.

        `local_broker_incarnation` is the incarnation id of the broker in this process; None if there is none.
        """
        self._log = metadata_log
        self._clock = clock
        self._settings = settings
        self._controller_id = controller_id
        self._cluster_id = cluster_id
        self._local_broker_incarnation = local_broker_incarnation
        self._sessions: BrokerSessions | None = None
        self._sessions_epoch = -1
        """Leader epoch of the sessions."""
        self._planning_heartbeats: Counter[BrokerIncarnation] = Counter()
        """Processes whose heartbeats are being planned. They keep their sessions: the controller causes the delay."""
        self._planning = asyncio.Lock()
        """Lock that is held while a plan is made in steps."""

    # --- brokers

    async def register_broker(self, request: BrokerRegistrationRequest, *, version: int) -> int:
        """Return the broker's epoch. Raises KafkaError for a registration that is rejected.

        The registration is checked again after planning: the previous process may send a heartbeat meanwhile.
        """

        def has_session(existing: BrokerRegistration) -> bool:
            # The local broker's earlier process has ended: this process holds the directory locks.
            return request.incarnation_id != self._local_broker_incarnation and self._has_session(
                BrokerIncarnation(existing.broker_id, existing.broker_epoch)
            )

        def checked() -> tuple[BrokerSessions, ControllerView]:
            sessions, view = self._sessions_and_view()
            check_broker_registration(
                view,
                request,
                version=version,
                cluster_id=self._cluster_id,
                has_session=has_session,
                has_heartbeat=sessions.has_heartbeat(request.broker_id),
                kraft_version=self._log.node.quorum.history.kraft_version,
            )
            return sessions, view

        checked()
        prepared = await self._planned(partial(plan_broker_registration, request=request, version=version))
        sessions, view = checked()
        existing = view.image.brokers.get(request.broker_id)
        record = registration_record(view, request, self._log.next_offset)
        written = self._log.append(prepared_with(prepared, [record], view.image.features), bytes_max=PLAN_BYTES_MAX)
        is_new = existing is None or existing.broker_epoch != record.broker_epoch
        sessions.registered(request.broker_id, is_new_incarnation=is_new)
        await self._log.committed(written)
        return record.broker_epoch

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Return the state that the broker must enter."""
        sessions, view = self._sessions_and_view()
        view.check_broker_epoch(request.broker_id, request.broker_epoch)
        sessions.renew_session(request.broker_id, request.broker_epoch, now_ms=self._now)
        decision: Decision | None = None
        while decision != (decision := decide(view, sessions, request)):
            if changes_partitions(view, request, decision):
                with self._keeping_session(request):
                    prepared = await self._planned(partial(self._plan_heartbeat, request=request, decision=decision))
                sessions, view = self._sessions_and_view()  # the basis of the decision may have changed
            else:
                records = at_once(plan_heartbeat(view, request=request, decision=decision))
                prepared = prepare(records, view.image.features)
        written = self._log.append(prepared, bytes_max=PLAN_BYTES_MAX) if prepared else None
        sessions.record_heartbeat(request, decision.next_state, end_offset=self._log.next_offset - 1, now_ms=self._now)
        if written is not None:
            await self._log.committed(written)
        return decision.answer

    @contextmanager
    def _keeping_session(self, request: BrokerHeartbeatRequest) -> Iterator[None]:
        """Keep the session of a broker while its heartbeat is planned, and renew it afterwards."""
        incarnation = BrokerIncarnation(request.broker_id, request.broker_epoch)
        self._planning_heartbeats[incarnation] += 1
        try:
            yield
        finally:
            self._planning_heartbeats[incarnation] -= 1
            if not self._planning_heartbeats[incarnation]:
                del self._planning_heartbeats[incarnation]
            if self._sessions is not None:
                self._sessions.renew_session(*incarnation, now_ms=self._now)

    def _has_session(self, incarnation: BrokerIncarnation) -> bool:
        """Return True if a broker's process has sent a heartbeat within its session, or waits for the response."""
        return incarnation in self._planning_heartbeats or self._sessions_and_view()[0].has_session(
            *incarnation, now_ms=self._now
        )

    def _plan_heartbeat(
        self, view: ControllerView, *, request: BrokerHeartbeatRequest, decision: Decision
    ) -> Pieces[Sequence[Any]]:
        """Like plan_heartbeat, but return no records if the broker's state has changed since the decision."""
        view.check_broker_epoch(request.broker_id, request.broker_epoch)
        if self._sessions_and_view()[0].state(view.image, request.broker_id) is not decision.current:
            return []
        return (yield from plan_heartbeat(view, request=request, decision=decision))

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a broker."""

        def make(view: ControllerView) -> Pieces[Sequence[Any]]:
            if broker_id == self._controller_id and view.image.brokers.keys() == {broker_id}:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is the only one of this cluster")
            return plan_unregistration(view, broker_id)

        prepared = await self._planned(make)
        sessions, view = self._sessions_and_view()
        written = self._log.append(prepared, bytes_max=PLAN_BYTES_MAX)
        sessions.unregistered(broker_id, view.image.brokers[broker_id].broker_epoch)
        await self._log.committed(written)

    async def register_controller(self, request: ControllerRegistrationRequest) -> None:
        """Store a controller's endpoints and supported features."""
        self._sessions_and_view()
        await self._log.committed(self._log.append([plan_controller_registration(request)]))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Return a new block of producer ids."""
        _, view = self._sessions_and_view()
        view.check_broker_epoch(broker_id, broker_epoch)
        record, block = plan_producer_ids(view.image, broker_id, broker_epoch)
        await self._log.committed(self._log.append([record]))
        return block

    # --- partitions

    async def alter_partition(self, request: AlterPartitionRequest, *, version: int) -> AlterPartitionResponse:
        """Change in-sync sets, as their leaders propose."""
        plan = IsrChanges(request, self._sessions_and_view()[1], version=version)
        return await self._write_in_pieces(plan, plan.answer(), is_preferred=True)

    async def reassign(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        """Start, change or cancel reassignments."""
        plan = Reassignments(request, self._sessions_and_view()[1])
        return await self._write_in_pieces(plan, plan.answer())

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Elect preferred leaders, or unclean ones if requested."""
        plan = Elections(request, self._sessions_and_view()[1])
        return await self._write_in_pieces(plan, plan.answer())

    async def assign_directories(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """Store the log directories of a broker's replicas."""
        plan = DirectoryAssignments(request, self._sessions_and_view()[1])
        return await self._write_in_pieces(plan, plan.answer(), is_preferred=True)

    async def _write_in_pieces(self, plan: RequestedChanges, answer: Pieces[T], *, is_preferred: bool = False) -> T:
        """Return the response when all records of the plan are committed; each piece is planned on the newest image.

        Each piece is a batch of its own. If this node leads in another epoch before the last one is written, the
        earlier ones may be lost: NOT_CONTROLLER is raised. With `is_preferred`, for requests of brokers, the steps run
        before those of other requests.
        """
        epoch = self._log.epoch
        while True:
            try:
                next(answer)
            except StopIteration as end:
                response: T = end.value
                return await self._write(plan.records, response)
            if plan.records:
                self._log.append(plan.records)
            await turn(is_preferred=is_preferred)
            if self._log.epoch != epoch:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            plan.begin(self._sessions_and_view()[1])

    async def _write(self, records: list[Any], answer: T) -> T:
        """Return the answer when the records, and those that it is based on, are committed."""
        if records:
            await self._log.committed(self._log.append(records))
        elif self._log.newest_image is not self._log.image:
            await self._log.committed(self._log.written)
        return answer

    # --- sessions

    async def run(self) -> None:
        """Fence brokers whose session is over, one after the other, while the controller runs."""
        while True:
            await asyncio.sleep(self._seconds_to_next_check())
            if self._log.is_active:
                try:
                    await self._fence_expired()
                except KafkaError as error:
                    logger.warning("cannot fence brokers whose session is over: %s", error)

    async def balance_leaders(self) -> None:
        """Elect preferred leaders periodically while the controller runs."""
        while True:
            await asyncio.sleep(self._settings.of(ControlSettings).imbalance_check_seconds)
            if self._settings.of(ControlSettings).rebalances_leaders:
                await self._sweep(plan_preferred_leaders)

    async def elect_unclean_leaders(self) -> None:
        """Elect leaders periodically for partitions that allow unclean ones, while the controller runs."""
        while True:
            await asyncio.sleep(self._settings.of(ControlSettings).unclean_election_interval_ms / 1000)
            await self._sweep(plan_unclean_leaders)

    async def _sweep(self, make: Planner) -> None:
        """Carry out a plan repeatedly until there is nothing left, while this node leads."""
        has_more = self._log.is_active
        while has_more:
            try:
                prepared = await self._planned(make, is_partial=True)
                if prepared:
                    await self._log.committed(self._log.append(prepared, bytes_max=PLAN_BYTES_MAX))
            except KafkaError as error:
                logger.warning("cannot elect leaders now: %s", error)
                return
            has_more = len(prepared) >= ELECTIONS_PER_SWEEP_MAX and self._log.is_active

    async def _planned(self, make: Planner, *, is_partial: bool = False) -> PreparedRecords:
        """Return the records of a plan that is valid for the newest image. Append them before anything is awaited.

        The plan is made in steps. Only one plan is made at a time: writing one would invalidate the others. A partial
        plan leaves partitions to a later one.
        """
        async with self._planning:
            for _ in range(ATTEMPTS_MAX):
                await turn(is_preferred=True)
                view = self._sessions_and_view()[1]
                records = await in_turns(make(view), is_preferred=True)
                preparing = prepare_in_pieces(records, view.image.features, view.image)
                prepared = await in_turns(preparing, is_preferred=True)
                if is_plan_valid(make, records, view, self._sessions_and_view()[1], is_partial=is_partial):
                    return prepared
            view = self._sessions_and_view()[1]
            return prepare(at_once(make(view)), view.image.features)

    def _seconds_to_next_check(self) -> float:
        timeout_ms = self._settings.of(ControlSettings).session_timeout_ms
        max_ms = timeout_ms / CHECKS_PER_SESSION
        # Sessions do not count while another controller is active, because that one fences brokers.
        sessions = self._sessions if self._log.is_active else None
        expiry_ms = sessions.next_expiry_ms() if sessions is not None else None
        if expiry_ms is None:
            return max_ms / 1000
        return min(max(expiry_ms - self._now + 1.0, 1.0), max_ms) / 1000

    async def _fence_expired(self) -> None:
        while (expired := self._sessions_and_view()[0].first_expired(now_ms=self._now)) is not None:
            sessions = self._sessions_and_view()[0]
            if expired.broker_id == self._controller_id or expired in self._planning_heartbeats:
                # A broker in this process is alive while the controller is, whatever has delayed both. A broker whose
                # heartbeat is being planned waits for this controller.
                sessions.renew_session(*expired, now_ms=self._now)
                continue
            try:
                await self._fence(expired)
            except KafkaError:
                sessions.renew_session(*expired, now_ms=self._now)  # check it again after another session
                raise

    async def _fence(self, expired: BrokerIncarnation) -> None:
        """Fence a process whose session is over, unless it sends a heartbeat meanwhile."""
        prepared = await self._planned(partial(plan_expiry, expired=expired))
        sessions = self._sessions_and_view()[0]
        if self._has_session(expired):
            return
        if prepared:
            logger.info("fencing broker %d: no heartbeat within broker.session.timeout.ms", expired.broker_id)
            self._log.append(prepared, bytes_max=PLAN_BYTES_MAX)
        sessions.forget(expired)

    def unwatched_brokers(self) -> list[int]:
        """Return the unfenced brokers without a session, which would never be fenced. There must never be any."""
        sessions = self._sessions
        if sessions is None or not self._log.is_active or self._sessions_epoch != self._log.epoch:
            return []
        return [
            broker.broker_id
            for broker in self._log.newest_image.brokers.values()
            if not broker.fenced and not sessions.is_watched(broker.broker_id, broker.broker_epoch)
        ]

    def _sessions_and_view(self) -> tuple[BrokerSessions, ControllerView]:
        """Return the sessions of this leadership, and a view of the newest image. Raises KafkaError NOT_CONTROLLER."""
        if not self._log.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if self._sessions is None or self._sessions_epoch != self._log.epoch:
            self._sessions_epoch = self._log.epoch
            self._sessions = BrokerSessions(
                self._log.newest_image,
                session_timeout_ms=self._settings.of(ControlSettings).session_timeout_ms,
                now_ms=self._now,
            )
        return self._sessions, self._view()

    def _view(self) -> ControllerView:
        return ControllerView(
            image=self._log.newest_image, settings=self._settings.at_start, controller_id=self._controller_id
        )

    @property
    def _now(self) -> float:
        return self._clock.monotonic_ms()

"""Broker heartbeats: sessions, and the states of brokers between fenced and shut down (KIP-631).

The state from heartbeats is not in the metadata log. The active controller keeps it in BrokerSessions, which it creates
when it becomes active; every unfenced broker gets a whole session. A broker whose session expires is fenced. A broker
that has caught up is unfenced. Before a broker shuts down, other brokers take over its leaderships.

        FENCED --caught up--> UNFENCED --requests shutdown, leads something--> CONTROLLED_SHUTDOWN
           |                     |                                               |  leads nothing, and all active
           |  requests shutdown  |  requests shutdown, leads nothing             |  brokers applied the new leaders
           +---------------------+------------> SHUTDOWN_NOW <-------------------+

SHUTDOWN_NOW is not stored: it is the response, and the broker is fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kwire.chunks import Pieces
from kwire.cluster.controller.plans.broker_changes import (
    plan_controlled_shutdown,
    plan_cordoned_directories,
    plan_fencing,
    plan_offline_directories,
    plan_unfencing,
)
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerState(Enum):
    """State of a broker, as the controller sees it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


class BrokerIncarnation(NamedTuple):
    """Process of a broker: a session belongs to it, not to a later process with the same id."""

    broker_id: int
    broker_epoch: int


@dataclass(slots=True, kw_only=True)
class _Progress:
    metadata_offset: int = -1
    """Offset up to which the broker reports that it has applied the metadata."""
    shutdown_offset: int | None = None
    """Offset of the metadata that contain the new leaders of its controlled shutdown; None if it is not stopping."""
    has_heartbeat: bool = False
    """True if this controller has answered its heartbeats without requesting its shutdown."""


class BrokerSessions:
    """State from heartbeats, kept by the active controller. Times are monotonic milliseconds."""

    def __init__(self, image: MetadataImage, *, session_timeout_ms: int, now_ms: float) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._last_heartbeats: dict[BrokerIncarnation, float] = {}
        """Time of each process's last heartbeat, the oldest first."""
        self._progress: dict[int, _Progress] = {}
        for broker in image.brokers.values():
            self._progress[broker.broker_id] = _Progress()
            if not broker.fenced:
                self.renew_session(broker.broker_id, broker.broker_epoch, now_ms=now_ms)

    def renew_session(self, broker_id: int, broker_epoch: int, *, now_ms: float) -> None:
        """Record a heartbeat. Call it on arrival: a slow controller must not fence because of its own delay."""
        incarnation = BrokerIncarnation(broker_id, broker_epoch)
        self._last_heartbeats.pop(incarnation, None)
        self._last_heartbeats[incarnation] = now_ms

    def has_session(self, broker_id: int, broker_epoch: int, *, now_ms: float) -> bool:
        """Return True if a process of a broker has sent a heartbeat within broker.session.timeout.ms."""
        last_ms = self._last_heartbeats.get(BrokerIncarnation(broker_id, broker_epoch))
        return last_ms is not None and not self._is_over(last_ms, now_ms)

    def has_heartbeat(self, broker_id: int) -> bool:
        """Return True if this controller has answered a heartbeat of the broker's process without shutting it down."""
        progress = self._progress.get(broker_id)
        return progress is not None and progress.has_heartbeat

    def first_expired(self, *, now_ms: float) -> BrokerIncarnation | None:
        """Return the process with the oldest heartbeat if its session is over, else None.

        It stays the first until it sends a heartbeat or `forget` removes it.
        """
        first = next(iter(self._last_heartbeats), None)
        return first if first is not None and self._is_over(self._last_heartbeats[first], now_ms) else None

    def forget(self, incarnation: BrokerIncarnation) -> None:
        """Remove the session of a process that is fenced or no longer registered."""
        self._last_heartbeats.pop(incarnation, None)

    def is_watched(self, broker_id: int, broker_epoch: int) -> bool:
        """Return True if a process has a session, so that it is fenced if its heartbeats end."""
        return BrokerIncarnation(broker_id, broker_epoch) in self._last_heartbeats

    def next_expiry_ms(self) -> float | None:
        """Return the end of the session that expires first; None without sessions."""
        first = next(iter(self._last_heartbeats), None)
        return None if first is None else self._last_heartbeats[first] + self._session_timeout_ms

    def _is_over(self, last_ms: float, now_ms: float) -> bool:
        return last_ms + self._session_timeout_ms < now_ms

    def registered(self, broker_id: int, *, is_new_incarnation: bool) -> None:
        """Process a broker's registration; a new process starts without progress."""
        if is_new_incarnation or broker_id not in self._progress:
            self._progress[broker_id] = _Progress()

    def unregistered(self, broker_id: int, broker_epoch: int) -> None:
        """Remove the state of an unregistered broker."""
        self._progress.pop(broker_id, None)
        self.forget(BrokerIncarnation(broker_id, broker_epoch))

    def record_heartbeat(
        self, request: BrokerHeartbeatRequest, state: BrokerState, *, end_offset: int, now_ms: float
    ) -> None:
        """Record that a heartbeat was answered with this state; `end_offset` is the last offset of the metadata log.

        The broker's session begins again. It may have ended, or this node may have been elected again, while the change
        was planned.
        """
        self.renew_session(request.broker_id, request.broker_epoch, now_ms=now_ms)
        progress = self._of(request.broker_id)
        progress.metadata_offset = request.current_metadata_offset
        progress.has_heartbeat = state is not BrokerState.SHUTDOWN_NOW
        if state is not BrokerState.CONTROLLED_SHUTDOWN:
            progress.shutdown_offset = None
        elif progress.shutdown_offset is None:
            progress.shutdown_offset = end_offset

    def state(self, image: MetadataImage, broker_id: int) -> BrokerState:
        """Return the state of a registered broker.

        A new controller has no record of a granted shutdown: the broker requests it again, and it is granted again.
        Fencing ends a controlled shutdown.
        """
        if image.brokers[broker_id].fenced:
            return BrokerState.FENCED
        is_stopping = self._of(broker_id).shutdown_offset is not None
        return BrokerState.CONTROLLED_SHUTDOWN if is_stopping else BrokerState.UNFENCED

    def can_shut_down(self, image: MetadataImage, broker_id: int) -> bool:
        """Return True if all unfenced brokers have applied the new leaders of a stopping broker's partitions."""
        shutdown_offset = self._of(broker_id).shutdown_offset
        return shutdown_offset is not None and all(
            self._of(other).metadata_offset >= shutdown_offset
            for other in image.brokers
            if self.state(image, other) is BrokerState.UNFENCED
        )

    def _of(self, broker_id: int) -> _Progress:
        return self._progress.setdefault(broker_id, _Progress())


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedState:
    """Request of a heartbeat, with the conditions that the response depends on."""

    fence: bool
    shut_down: bool
    is_caught_up: bool
    """True if the broker has applied its own registration."""
    leads_any: Callable[[], bool]
    can_shut_down: Callable[[], bool]


def next_state(current: BrokerState, requested: RequestedState) -> BrokerState:
    """Return the state of a broker after its heartbeat."""
    if current is BrokerState.FENCED:
        if requested.shut_down:
            return BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED if requested.is_caught_up and not requested.fence else BrokerState.FENCED
    if current is BrokerState.UNFENCED:
        return _after_unfenced(requested)
    assert current is BrokerState.CONTROLLED_SHUTDOWN, "SHUTDOWN_NOW is never a current state"
    return current if requested.leads_any() or not requested.can_shut_down() else BrokerState.SHUTDOWN_NOW


def _after_unfenced(requested: RequestedState) -> BrokerState:
    if requested.fence:
        return BrokerState.SHUTDOWN_NOW if requested.shut_down else BrokerState.FENCED
    if not requested.shut_down:
        return BrokerState.UNFENCED
    return BrokerState.CONTROLLED_SHUTDOWN if requested.leads_any() else BrokerState.SHUTDOWN_NOW


_PLANS = {
    BrokerState.FENCED: plan_fencing,
    BrokerState.SHUTDOWN_NOW: plan_fencing,
    BrokerState.UNFENCED: plan_unfencing,
    BrokerState.CONTROLLED_SHUTDOWN: plan_controlled_shutdown,
}


class Decision(NamedTuple):
    """Change of a broker's state that a heartbeat causes."""

    current: BrokerState
    next_state: BrokerState
    is_caught_up: bool

    @property
    def answer(self) -> BrokerHeartbeatResponse:
        return BrokerHeartbeatResponse(
            is_caught_up=self.is_caught_up,
            is_fenced=self.next_state.is_fenced,
            should_shut_down=self.next_state is BrokerState.SHUTDOWN_NOW,
        )


def decide(
    view: ControllerView,
    sessions: BrokerSessions,
    request: BrokerHeartbeatRequest,
    *,
    registration_offset: int | None = None,
) -> Decision:
    """Return the change of state that a heartbeat causes. Raises KafkaError STALE_BROKER_EPOCH.

    `registration_offset` is the offset of the broker's registration record, if it differs from the broker's epoch.
    """
    broker_id = request.broker_id
    view.check_broker_epoch(broker_id, request.broker_epoch)
    caught_up_at = request.broker_epoch if registration_offset is None else registration_offset
    requested = RequestedState(
        fence=request.want_fence,
        shut_down=request.want_shut_down,
        is_caught_up=request.current_metadata_offset >= caught_up_at,
        leads_any=lambda: view.leads_any(broker_id),
        can_shut_down=lambda: sessions.can_shut_down(view.image, broker_id),
    )
    current = sessions.state(view.image, broker_id)
    return Decision(current, next_state(current, requested), requested.is_caught_up)


def changes_partitions(view: ControllerView, request: BrokerHeartbeatRequest, decision: Decision) -> bool:
    """Return True if a heartbeat may change partitions; its plan then examines all of them."""
    has_lost = not set(request.offline_log_dirs).isdisjoint(view.image.brokers[request.broker_id].directories)
    return has_lost or decision.next_state is not decision.current


def plan_heartbeat(view: ControllerView, *, request: BrokerHeartbeatRequest, decision: Decision) -> Pieces[list[Any]]:
    """Return the records that follow from a heartbeat. Raises KafkaError STALE_BROKER_EPOCH."""
    broker_id = request.broker_id
    view.check_broker_epoch(broker_id, request.broker_epoch)
    records: list[Any] = []
    if decision.next_state is not decision.current:
        records += yield from _PLANS[decision.next_state](view, broker_id)
    if request.offline_log_dirs:
        # The effect of a lost directory depends on the broker's new state.
        view = yield from view.after_in_pieces(records)
        records += yield from plan_offline_directories(view, broker_id, request.offline_log_dirs)
    records += plan_cordoned_directories(view, broker_id, request.cordoned_log_dirs)
    return records


def plan_expiry(view: ControllerView, expired: BrokerIncarnation) -> Pieces[list[Any]]:
    """Return the records that fence a broker whose session is over; none for a process that is no longer registered.

    Brokers are fenced one at a time, so that the next plan does not elect a broker that is being fenced.
    """
    broker = view.image.brokers.get(expired.broker_id)
    if broker is None or broker.broker_epoch != expired.broker_epoch or broker.fenced:
        return []
    return (yield from plan_fencing(view, expired.broker_id))

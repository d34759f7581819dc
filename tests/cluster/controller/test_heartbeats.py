"""Heartbeats: broker sessions, broker states, and their effects."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.cluster.controller.heartbeats import (
    BrokerIncarnation,
    BrokerSessions,
    BrokerState,
    RequestedState,
    decide,
    next_state,
    plan_expiry,
    plan_heartbeat,
)
from kwire.cluster.controller.view import ControllerView
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tests.cluster.controller.support import directory, epoch, made_by, one_partition, partition_of

FENCED, UNFENCED = BrokerState.FENCED, BrokerState.UNFENCED
STOPPING, STOP = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW
TIMEOUT_MS = 9000


@pytest.mark.parametrize(
    ("current", "wish", "expected"),
    [
        # current state; (fence requested, shutdown requested, caught up, leads partitions, may stop); next state
        (FENCED, (False, False, True, False, False), UNFENCED),
        (FENCED, (False, False, False, False, False), FENCED),
        (FENCED, (True, False, True, False, False), FENCED),
        (FENCED, (False, True, True, True, False), STOP),
        (FENCED, (True, True, False, True, False), STOP),
        (UNFENCED, (False, False, False, True, False), UNFENCED),
        (UNFENCED, (True, False, True, True, False), FENCED),
        (UNFENCED, (True, True, True, True, False), STOP),
        (UNFENCED, (False, True, True, True, False), STOPPING),
        (UNFENCED, (False, True, True, False, False), STOP),
        (STOPPING, (False, True, True, True, True), STOPPING),
        (STOPPING, (False, True, True, False, False), STOPPING),
        (STOPPING, (False, True, True, False, True), STOP),
        (STOPPING, (False, False, True, False, True), STOP),
    ],
)
def test_each_heartbeat_request_sets_the_broker_state(
    current: BrokerState, wish: tuple[bool, ...], expected: BrokerState
) -> None:
    fence, shut_down, is_caught_up, leads_any, can_shut_down = wish
    asked = RequestedState(
        fence=fence,
        shut_down=shut_down,
        is_caught_up=is_caught_up,
        leads_any=lambda: leads_any,
        can_shut_down=lambda: can_shut_down,
    )
    assert next_state(current, asked) is expected


class Cluster:
    """A controller's view and sessions; heartbeats take effect at once."""

    def __init__(self, view: ControllerView) -> None:
        self.view = view
        self.sessions = BrokerSessions(view.image, session_timeout_ms=TIMEOUT_MS, now_ms=0)
        self.end = 5000

    def beat(self, broker: int, **fields: Any) -> tuple[list[Any], BrokerHeartbeatResponse]:
        request = BrokerHeartbeatRequest(
            broker_id=broker, broker_epoch=epoch(broker), current_metadata_offset=fields.pop("offset", self.end)
        )
        for name, value in fields.items():
            setattr(request, name, value)
        decision = decide(self.view, self.sessions, request)
        made = made_by(self.view, plan_heartbeat, request=request, decision=decision)
        self.view = self.view.after(made)
        self.end += len(made)
        self.sessions.record_heartbeat(request, decision.next_state, end_offset=self.end, now_ms=0)
        return made, decision.answer


def answered(answer: BrokerHeartbeatResponse) -> tuple[bool, bool, bool]:
    return answer.is_caught_up, answer.is_fenced, answer.should_shut_down


def test_a_broker_is_unfenced_when_it_has_caught_up() -> None:
    cluster = Cluster(one_partition([1, 2], isr=[1], leader=-1, fenced=(1,)))
    made, answer = cluster.beat(1, offset=epoch(1) - 1)
    assert (made, answered(answer)) == ([], (False, True, False))
    made, answer = cluster.beat(1, want_fence=True)
    assert (made, answered(answer)) == ([], (True, True, False))
    made, answer = cluster.beat(1, offset=epoch(1))
    assert [type(each).__name__ for each in made] == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    assert answered(answer) == (True, False, False)
    assert partition_of(cluster.view).leader == 1
    assert cluster.beat(1)[0] == []


def test_a_broker_may_ask_to_be_fenced() -> None:
    cluster = Cluster(one_partition([1, 2]))
    _, answer = cluster.beat(1, want_fence=True)
    assert answered(answer) == (True, True, False)
    assert partition_of(cluster.view).isr == (2,)
    assert cluster.view.image.brokers[1].fenced


def test_a_broker_shuts_down_when_the_others_have_the_new_leaders() -> None:
    cluster = Cluster(one_partition([1, 2], brokers=(1, 2)))
    cluster.beat(2)
    made, answer = cluster.beat(1, want_shut_down=True)
    assert len(made) == 2
    assert answered(answer) == (True, False, False)
    assert partition_of(cluster.view).leader == 2
    _, answer = cluster.beat(1, want_shut_down=True)
    assert not answer.should_shut_down, "broker 2 is behind"
    cluster.beat(2)
    made, answer = cluster.beat(1, want_shut_down=True)
    assert answered(answer) == (True, True, True)
    assert cluster.view.image.brokers[1].fenced
    _, answer = cluster.beat(1, want_shut_down=True)
    assert answered(answer) == (True, True, True)


def test_a_shutdown_waits_while_no_other_broker_can_lead() -> None:
    cluster = Cluster(one_partition([1, 2], isr=[1], brokers=(1, 2)))
    _, answer = cluster.beat(1, want_shut_down=True)
    assert not answer.should_shut_down
    assert partition_of(cluster.view).leader == -1
    cluster.beat(2)
    _, answer = cluster.beat(1, want_shut_down=True)
    assert answer.should_shut_down, "it leads nothing any more"


def test_a_broker_without_leaderships_shuts_down_at_once() -> None:
    cluster = Cluster(one_partition([1, 2]))
    made, answer = cluster.beat(3, want_shut_down=True)
    assert [type(each) for each in made] == [records.BrokerRegistrationChangeRecord]
    assert answered(answer) == (True, True, True)


def test_a_new_controller_grants_a_controlled_shutdown_again() -> None:
    cluster = Cluster(one_partition([1, 2], brokers=(1, 2)))
    cluster.beat(1, want_shut_down=True)
    again = Cluster(cluster.view)
    assert again.sessions.state(again.view.image, 1) is UNFENCED
    made, answer = again.beat(1, want_shut_down=True)
    assert answer.should_shut_down
    assert [type(each) for each in made] == [records.BrokerRegistrationChangeRecord]


def test_lost_and_cordoned_directories_come_with_heartbeats() -> None:
    cluster = Cluster(one_partition([1, 2], directories=2))
    made, _ = cluster.beat(1, offline_log_dirs=[directory(1)], cordoned_log_dirs=[directory(1, 1)])
    assert len(made) == 3
    assert partition_of(cluster.view).leader == 2
    broker = cluster.view.image.brokers[1]
    assert (broker.directories, broker.cordoned_directories) == ((directory(1, 1),), (directory(1, 1),))


def test_a_broker_that_comes_back_without_a_directory_does_not_lead_from_it() -> None:
    cluster = Cluster(one_partition([1, 2], isr=[1], leader=-1, fenced=(1,), directories=2))
    cluster.beat(1, offline_log_dirs=[directory(1)])
    assert not cluster.view.image.brokers[1].fenced
    assert partition_of(cluster.view).leader == -1


@pytest.mark.parametrize(("broker", "broker_epoch"), [(1, epoch(1) - 1), (1, epoch(1) + 1), (9, epoch(9))])
def test_a_stale_broker_epoch_is_rejected(broker: int, broker_epoch: int) -> None:
    cluster = Cluster(one_partition([1, 2]))
    with pytest.raises(KafkaError) as rejected:
        cluster.beat(broker, broker_epoch=broker_epoch)
    assert rejected.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_sessions_end_one_after_the_other() -> None:
    view = one_partition([1, 2], brokers=(1, 2, 3), fenced=(3,))
    sessions = BrokerSessions(view.image, session_timeout_ms=TIMEOUT_MS, now_ms=0)
    sessions.renew_session(1, epoch(1), now_ms=5000)
    assert sessions.next_expiry_ms() == TIMEOUT_MS
    assert sessions.first_expired(now_ms=TIMEOUT_MS) is None
    assert sessions.has_session(2, epoch(2), now_ms=TIMEOUT_MS)
    assert not sessions.has_session(2, epoch(2), now_ms=TIMEOUT_MS + 1)
    assert not sessions.has_session(3, epoch(3), now_ms=0), "a fenced broker has to come forward"
    assert not sessions.has_session(1, epoch(1) - 1, now_ms=0)
    for broker_id, expiry_ms in ((2, TIMEOUT_MS), (1, 14_000)):
        assert sessions.next_expiry_ms() == expiry_ms
        assert sessions.first_expired(now_ms=30_000) == (broker_id, epoch(broker_id))
        sessions.forget(BrokerIncarnation(broker_id, epoch(broker_id)))
    assert sessions.first_expired(now_ms=30_000) is None
    assert sessions.next_expiry_ms() is None


def test_a_broker_with_an_expired_session_is_fenced() -> None:
    view = one_partition([1, 2], brokers=(1, 2, 3), fenced=(3,))
    made = made_by(view, plan_expiry, BrokerIncarnation(1, epoch(1)))
    assert view.after(made).image.brokers[1].fenced
    assert partition_of(view.after(made)).leader == 2
    for unknown in (BrokerIncarnation(1, 1), BrokerIncarnation(9, 9), BrokerIncarnation(3, epoch(3))):
        assert made_by(view, plan_expiry, unknown) == []


def test_a_controlled_shutdown_ends_with_a_fence() -> None:
    cluster = Cluster(one_partition([1, 2], brokers=(1, 2)))
    cluster.beat(1, want_shut_down=True)
    cluster.view = cluster.view.after(made_by(cluster.view, plan_expiry, BrokerIncarnation(1, epoch(1))))
    assert cluster.sessions.state(cluster.view.image, 1) is FENCED
    _, answer = cluster.beat(1, want_shut_down=True)
    assert answer.should_shut_down


def test_unregistered_brokers_do_not_delay_a_shutdown() -> None:
    view = one_partition([1, 2], brokers=(1, 2, 3))
    sessions = BrokerSessions(view.image, session_timeout_ms=TIMEOUT_MS, now_ms=0)
    for broker_id, state, offset in ((1, STOPPING, 10), (2, UNFENCED, 20)):
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch(broker_id), current_metadata_offset=offset
        )
        sessions.record_heartbeat(request, state, end_offset=20, now_ms=0)
    assert not sessions.can_shut_down(view.image, 1)
    sessions.unregistered(3, epoch(3))
    gone = view.after([records.UnregisterBrokerRecord(broker_id=3, broker_epoch=epoch(3))])
    assert sessions.can_shut_down(gone.image, 1)
    assert not sessions.has_session(3, epoch(3), now_ms=0)
    sessions.registered(1, is_new_incarnation=True)
    assert sessions.state(view.image, 1) is UNFENCED


def test_looking_up_unregistered_brokers_leaves_no_state() -> None:
    view = one_partition([1, 2], brokers=(1, 2, 3))
    sessions = BrokerSessions(view.image, session_timeout_ms=TIMEOUT_MS, now_ms=0)
    before = len(sessions._progress)
    assert not any(sessions.has_heartbeat(broker_id) for broker_id in range(1000, 2000))
    assert len(sessions._progress) == before

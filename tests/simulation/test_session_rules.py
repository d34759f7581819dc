"""Rules of fetch sessions: violations that they find, and checks of brokers' own sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.server.fetching.fetch_session import FetchSession
from kwire.server.fetching.session_watch import FollowerWatch
from kwire.simulation import Simulation
from tests.simulation.session_rules import SessionRules
from tests.simulation.test_replica_rules import Stage
from tests.support.compiled import replaces_methods
from tests.support.requests import batch


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Simulation(seed=3) as simulation:
        yield Stage(simulation)


def sessions(stage: Stage) -> list[FetchSession]:
    """Return the fetch sessions of the leader's followers."""
    server = stage.cluster.brokers[stage.leading.leader_id - 1].server
    return [each for each in server.services.fetch_sessions._cache._sessions.values() if each.is_follower]


def test_partitions_of_caught_up_followers_are_not_checked(stage: Stage) -> None:
    assert [session.unread for session in sessions(stage)] == [{}, {}]
    rules = SessionRules(stage.cluster)
    rules.look()
    assert rules.settled >= 2


def test_each_change_of_a_partition_marks_it_for_a_check(stage: Stage) -> None:
    rules = SessionRules(stage.cluster)
    stage.simulation.check_after_each_event(rules.look)
    for _ in range(3):
        stage.append_another()
    leading = stage.leading
    leading.delete_records_before(-1)
    stage.simulation.advance(1)
    for broker_id in (stage.a_follower, leading.leader_id):
        stage.restart(broker_id, cleanly=False)
        stage.append_another()
    assert rules.settled > 100


@replaces_methods
def test_an_append_without_a_notification_is_found(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FollowerWatch, "data_available", lambda watch, size: None)
    stage.leading.append(batch(b"unheard"), 1)
    with pytest.raises(AssertionError, match="does not look at"):
        SessionRules(stage.cluster).look()


def test_a_partition_that_was_not_notified_is_checked_in_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition is checked once in a tenth of replica.lag.time.max.ms, even without a notification."""
    session = sessions(stage)[0]
    (known,) = session.partitions.values()
    known.unwatch()
    end = stage.leading.log.log_end_offset
    stage.leading.append(batch(b"unheard"), 1)
    session.unread.clear()
    stage.simulation.advance(4)
    assert all(follower.log.log_end_offset == end + 1 for follower in stage.followers)


def test_a_fetch_that_moves_the_log_start_of_its_follower_is_woken_by_the_next_append(stage: Stage) -> None:
    """The follower's fetch itself advances its log start, which must not use up that fetch's notification."""
    for _ in range(4):
        stage.append_another()
        stage.leading.delete_records_before(-1)
        stage.simulation.advance(1.137)
        leading, began = stage.leading, stage.simulation.now
        end = leading.append(batch(b"x"), 1).last_offset + 1
        while leading.high_watermark < end:
            stage.simulation.advance(0.001)
        assert stage.simulation.now - began < 0.1

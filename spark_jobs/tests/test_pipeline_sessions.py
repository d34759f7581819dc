"""Sessions of devices: merging of events that arrive in any order."""

from decimal import Decimal
from itertools import permutations

import pytest

from spark_jobs.pipeline.queries.sessions import Session, merged

GAP_MS = 10


def event(time_ms, value=1):
    return Session(time_ms, time_ms, 1, Decimal(value))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], []),
        ([5], [(5, 5, 1)]),
        ([5, 15], [(5, 15, 2)]),
        ([5, 16], [(5, 5, 1), (16, 16, 1)]),
        ([0, 20, 10], [(0, 20, 3)]),
        ([0, 20], [(0, 0, 1), (20, 20, 1)]),
        ([7, 7, 7], [(7, 7, 3)]),
    ],
)
def test_events_with_gaps_are_sessions(times, expected):
    found = merged([event(each) for each in times], GAP_MS)
    assert [each[:3] for each in found] == expected


def test_the_order_of_arrival_makes_no_difference():
    times = [0, 8, 19, 40, 45, 70]
    expected = merged([event(each, each) for each in times], GAP_MS)
    assert [each.sum for each in expected] == [8, 19, 85, 70]
    for order in permutations(times):
        sessions = []
        for time_ms in order:
            sessions = merged([*sessions, event(time_ms, time_ms)], GAP_MS)
        assert sessions == expected


def test_a_late_event_joins_two_sessions():
    sessions = merged([event(0), event(20)], GAP_MS)
    assert merged([*sessions, event(10)], GAP_MS) == [Session(0, 20, 3, Decimal(3))]

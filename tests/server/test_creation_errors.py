"""Errors of topics that could not be created: kept for a while, and for the latest topics only."""

from __future__ import annotations

from kwire.server.other_nodes.creation_errors import ERRORS_MAX, CreationErrors
from tests.log.support import ManualClock


def test_an_error_is_kept_for_its_time() -> None:
    clock = ManualClock()
    errors = CreationErrors(clock)
    errors.put("a", "no brokers", 100)
    errors.put("b", "no rights", 300)
    assert errors.of(["a", "b", "c"]) == {"a": "no brokers", "b": "no rights"}
    clock.now_ms += 100
    assert errors.of(["a", "b", "c"]) == {"b": "no rights"}
    errors.put("b", "no brokers", 1000)
    clock.now_ms += 300
    assert errors.of(["b"]) == {"b": "no brokers"}


def test_the_errors_that_expire_first_are_dropped() -> None:
    errors = CreationErrors(ManualClock())
    for number in range(ERRORS_MAX + 10):
        errors.put(str(number), "no brokers", 1000 + number)
    assert list(errors.of(map(str, range(ERRORS_MAX + 10)))) == [str(number) for number in range(10, ERRORS_MAX + 10)]

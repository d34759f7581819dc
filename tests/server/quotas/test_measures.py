"""Rates and token buckets: same measurements as Kafka's classes, to the millisecond."""

from __future__ import annotations

import math

import pytest

from kwire.server.quotas.measures import MEASURES_MAX, Rates
from kwire.server.quotas.rate import THROTTLE_MS_MAX, SampledRate, rounded
from kwire.server.quotas.token_bucket import TokenBucket
from tests.server.quotas.golden import ELEVEN_SAMPLES_OF_ONE_SECOND, LIMIT, TWO_SAMPLES_OF_THREE_SECONDS
from tests.server.quotas.world import limits_of

CASES = [
    pytest.param(ELEVEN_SAMPLES_OF_ONE_SECOND, 11, 1000, id="11x1s"),
    pytest.param(TWO_SAMPLES_OF_THREE_SECONDS, 2, 3000, id="2x3s"),
]
Rows = tuple[tuple[int, int, int, int, float], ...]


@pytest.mark.parametrize(("rows", "samples_max", "window_ms"), CASES)
def test_a_rate_is_measured_as_kafka_does(rows: Rows, samples_max: int, window_ms: int) -> None:
    rate = SampledRate(samples_max=samples_max, window_ms=window_ms)
    measured = []
    for now_ms, value, *_ in rows:
        rate.record(value, now_ms)
        measured.append((rate.throttle_ms(LIMIT, now_ms), rate.window_ms(now_ms)))
    assert measured == [(throttle_ms, window) for _, _, throttle_ms, window, _ in rows]


@pytest.mark.parametrize(("rows", "samples_max", "window_ms"), CASES)
def test_a_bucket_fills_and_empties_as_kafkas_does(rows: Rows, samples_max: int, window_ms: int) -> None:
    bucket = TokenBucket(samples_max=samples_max, window_ms=window_ms, now_ms=0)
    for now_ms, value, _, _, tokens in rows:
        bucket.take(value, LIMIT, now_ms)
        assert bucket.tokens(LIMIT, now_ms) == pytest.approx(tokens)
        assert bucket.throttle_ms(LIMIT, now_ms) == max(0, math.floor(-tokens / LIMIT * 1000 + 0.5))


def test_a_rate_at_its_limit_need_not_wait() -> None:
    rate = SampledRate(samples_max=11, window_ms=1000)
    assert rate.measure(5) == 0
    rate.record(LIMIT * 10, 5)
    assert rate.throttle_ms(LIMIT, 5) == 0
    rate.record(1, 5)
    assert rate.throttle_ms(LIMIT, 5) == 2
    assert rate.throttle_ms(LIMIT, 7) == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 1), (1.49, 1), (-3.0, 0), (math.nan, 0), (math.inf, THROTTLE_MS_MAX), (1e300, THROTTLE_MS_MAX)],
)
def test_times_are_rounded_into_what_the_wire_holds(value: float, expected: int) -> None:
    assert abs(rounded(value) - expected) <= (1 if expected == THROTTLE_MS_MAX else 0)
    assert 0 <= rounded(value) <= THROTTLE_MS_MAX


def test_a_value_that_is_taken_back_does_not_count() -> None:
    rates = Rates(lambda: SampledRate(samples_max=11, window_ms=1000))
    rates.set_limits(limits_of({(("user", None),): 1000.0}))
    client = ("alice", "app")
    assert rates.record(client, 9_000, 0) == 0
    assert rates.record(client, 5_000, 100) > 0
    rates.take_back(client, 5_000, 100)
    assert rates.record(client, 1_000, 100) == 0


def test_clients_without_a_limit_are_not_remembered() -> None:
    rates = Rates(lambda: SampledRate(samples_max=11, window_ms=1000))
    rates.set_limits(limits_of({(("client-id", "app"),): 1.0}))
    assert rates.record(("alice", "other"), 1e9, 0) == 0
    assert rates.find(("alice", "other")) is None
    assert rates.record(("alice", "app"), 1e9, 0) > 0
    rates.set_limits(limits_of({}))
    assert rates.record(("alice", "app"), 1e9, 0) == 0


def test_the_table_of_clients_is_bounded() -> None:
    rates = Rates(lambda: SampledRate(samples_max=11, window_ms=1000))
    rates.set_limits(limits_of({(("client-id", None),): 1.0}))
    kept = ("u", "kept")
    rates.record(kept, 1e6, 0)
    for number in range(MEASURES_MAX + 5):
        rates.record(("u", f"id-{number}"), 1, 0)
        rates.record(kept, 0, 0)
    assert len(rates._by_client) == MEASURES_MAX
    assert rates.record(kept, 0, 0) > 0, "who is active is not forgotten"


def test_a_client_without_a_limit_has_nothing_to_take_back() -> None:
    rates = Rates(lambda: SampledRate(samples_max=11, window_ms=1000))
    rates.take_back(("alice", "app"), 5_000, 0)
    rates.set_limits(limits_of({(("user", None),): 1000.0}))
    assert rates.record(("alice", "app"), 11_001, 0) > 0

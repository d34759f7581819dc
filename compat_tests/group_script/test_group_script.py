"""Requests about groups of all kinds: the responses, groups and records of both brokers are equal."""

import pytest

from compat_tests.group_script.playing import play

SEED = 20_261_128
SHORT_COUNT = 300
WHOLE_COUNT = 3_000


@pytest.mark.short
def test_a_short_script_is_answered_and_stored_alike(pair):
    outcome = play(*pair, SEED, SHORT_COUNT, most=3)
    assert outcome.differences == []
    assert outcome.played == SHORT_COUNT
    assert outcome.without_error > SHORT_COUNT / 2


def test_a_long_script_is_answered_and_stored_alike(pair, request):
    count = SHORT_COUNT if request.config.getoption("--broker") == "kafka" else WHOLE_COUNT
    outcome = play(*pair, SEED + 1, count, most=10)
    assert outcome.differences == []
    assert outcome.played == count

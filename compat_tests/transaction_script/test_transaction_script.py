"""Requests about transactions and groups: both brokers return the same codes and responses and store the same."""

import pytest

from compat_tests.transaction_script.playing import play

SEED = 20_261_122
SHORT_COUNT = 800
WHOLE_COUNT = 5_000


@pytest.mark.short
def test_a_short_script_is_answered_and_stored_alike(pair):
    outcome = play(*pair, SEED, SHORT_COUNT, most=5)
    assert outcome.differences == []
    assert outcome.played == SHORT_COUNT
    assert outcome.without_error > SHORT_COUNT / 4


def test_a_long_script_is_answered_and_stored_alike(pair, request):
    count = SHORT_COUNT if request.config.getoption("--broker") == "kafka" else WHOLE_COUNT
    outcome = play(*pair, SEED + 1, count, most=20)
    assert outcome.differences == []
    assert outcome.played == count

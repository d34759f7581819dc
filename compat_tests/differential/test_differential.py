"""Both brokers get the same requests: their responses differ only as docs/differences.md describes."""

import pytest

from compat_tests.differential.running import run

SEED = 20_260_601
SHORT_COUNT = 1_500
WHOLE_COUNT = 20_000


@pytest.mark.short
def test_a_short_script_is_answered_alike(pair):
    outcome = run(*pair, SEED, SHORT_COUNT, most=5)
    assert outcome.differences == []
    assert outcome.played == SHORT_COUNT


def test_a_long_script_is_answered_alike(pair, request):
    # A shorter script is enough to compare Kafka with itself.
    is_reference = request.config.getoption("--broker") == "kafka"
    count = SHORT_COUNT if is_reference else WHOLE_COUNT
    outcome = run(*pair, SEED + 1, count, most=20)
    assert outcome.differences == []
    assert outcome.played == count
    assert is_reference or outcome.excuses.superfluous() == []

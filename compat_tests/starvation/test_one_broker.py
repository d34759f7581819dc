"""Attacks of one aggressive client on each API of one broker, and the latencies of another client meanwhile."""

from functools import partial

import pytest

from compat_tests.starvation import attacks
from compat_tests.starvation.judging import params
from compat_tests.starvation.measuring import Cases
from compat_tests.starvation.scene import prepare

PART = "One broker"
CASES = attacks.cases()


@pytest.fixture(scope="module")
def cases(one_broker, tmp_path_factory):
    scene = prepare(one_broker.bootstrap)
    restart = partial(one_broker.restart, clean=False)
    with Cases(scene, tmp_path_factory.mktemp("attacks"), one_broker, restart) as cases:
        yield cases


@pytest.mark.parametrize("attack", params(pytest, CASES))
def test_another_client_is_served_during_an_attack(cases, judge, evidence, attack):
    complaints = judge.judge(cases, attack, partial(evidence.add, PART))
    assert complaints == []

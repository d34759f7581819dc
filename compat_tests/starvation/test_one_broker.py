"""One aggressive client against each API of one broker, and what another client has of the broker meanwhile."""

import pytest

from compat_tests.starvation.judging import params
from compat_tests.starvation.measuring import Cases, victim
from compat_tests.starvation.scene import prepare

PART = "One broker"


@pytest.fixture(scope="module")
def cases(one_broker, tmp_path_factory):
    scene = prepare(one_broker.bootstrap)
    with victim(scene) as ask:
        yield Cases(scene, ask, one_broker.output, tmp_path_factory.mktemp("attacks"))


@pytest.mark.parametrize(("attack", "connections"), params(pytest))
def test_another_client_is_served(cases, judge, evidence, attack, connections):
    figures = judge.figures(cases, attack, connections)
    evidence.add(PART, figures)
    problems = judge.problems(attack, figures)
    assert problems == []

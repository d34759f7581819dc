"""One aggressive client against each API of one broker, and what another client has of the broker meanwhile."""

from functools import partial

import pytest

from compat_tests.starvation.judging import params
from compat_tests.starvation.measuring import Cases
from compat_tests.starvation.scene import prepare

PART = "One broker"


@pytest.fixture(scope="module")
def cases(one_broker, tmp_path_factory):
    scene = prepare(one_broker.bootstrap)
    restart = partial(one_broker.restart, clean=False)
    with Cases(scene, tmp_path_factory.mktemp("attacks"), one_broker, restart) as cases:
        yield cases


@pytest.mark.parametrize(("attack", "connections"), params(pytest))
def test_another_client_is_served(cases, judge, evidence, attack, connections):
    figures = judge.figures(cases, attack, connections)
    evidence.add(PART, figures, judge.problems(attack, figures))
    assert judge.complaints(attack, figures) == []

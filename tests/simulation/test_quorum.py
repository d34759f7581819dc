"""Quorums of production controllers, by seed; python -m tests.simulation.quorum runs more of them."""

from __future__ import annotations

import pytest

from tests.simulation.many import Result, run_many
from tests.simulation.quorum import run_seed
from tests.simulation.regressions import regressions
from tests.simulation.short_seeds import asked, by_length

SEEDS = range(1, 21)
REGRESSIONS = regressions("quorum")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[int, Result]:
    return {result.seed: result for result in run_many("quorum", asked(request))}


@pytest.mark.parametrize("seed", by_length(SEEDS))
def test_nothing_that_a_quorum_acknowledged_is_lost(seed: int, results: dict[int, Result]) -> None:
    outcome = results[seed].outcome
    assert outcome is not None, results[seed].failure
    assert outcome.faults >= 5
    assert outcome.operations >= 1000
    assert len(outcome.acknowledged) > 100
    assert outcome.elections >= 1


@pytest.mark.long
@pytest.mark.parametrize("seed", [each.seed for each in REGRESSIONS])
def test_seeds_that_failed_earlier_pass(seed: int, results: dict[int, Result]) -> None:
    assert results[seed].outcome is not None, results[seed].failure


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_gives_the_same_run_in_another_process(seed: int, results: dict[int, Result]) -> None:
    assert results[seed].outcome == run_seed(seed)


def test_a_seed_gives_the_same_run_twice() -> None:
    first, second = run_seed(3, 10.0), run_seed(3, 10.0)
    assert first == second
    assert first.digest != run_seed(4, 10.0).digest


def test_a_failing_seed_prints_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("nobody leads")

    monkeypatch.setattr("tests.simulation.quorum_calm.Calm.until", never)
    with pytest.raises(AssertionError) as caught:
        run_seed(3, 1.0)
    assert "python -m tests.simulation.quorum --seed 3 --seconds 1.0" in caught.value.__notes__

"""Quorums of production controllers, by seed: python -m tests.simulation.quorum runs more of them."""

from __future__ import annotations

import pytest

from tests.simulation.quorum import run_seed

SEEDS = 12


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_nothing_that_a_quorum_acknowledged_is_lost(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.faults >= 5
    assert outcome.operations > 900
    assert len(outcome.acknowledged) > 500
    assert outcome.elections >= 1


def test_the_same_seed_does_the_same() -> None:
    first, second = run_seed(3, 10.0), run_seed(3, 10.0)
    assert first == second
    assert first.digest != run_seed(4, 10.0).digest

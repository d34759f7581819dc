"""Broker under random faults: it keeps all acknowledged records; a seed gives the same run in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.acknowledged import run_seed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(10))
def test_acknowledged_records_survive_faults(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.faults >= 5
    assert outcome.operations > 700
    assert len(outcome.acknowledged) > outcome.operations / 3
    assert len(set(outcome.read)) == len(outcome.read), "a record is there twice that was sent once"


def test_without_flushes_a_power_cut_loses_records() -> None:
    """Otherwise the test above would prove nothing."""
    with pytest.raises(AssertionError, match="lost, seed 3"):
        run_seed(3, 20.0, kinds=("power",), flush_messages=10**9)
    assert run_seed(3, 20.0, kinds=("kill",), flush_messages=10**9).faults >= 5, "a process may die without loss"


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    program = f"from tests.simulation.acknowledged import run_seed; print(run_seed({seed}, 20.0).digest)"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    """Check property P5."""
    here = run_seed(17, 20.0).digest
    assert here == run_seed(17, 20.0).digest
    assert here == digest_elsewhere(17, "1") == digest_elsewhere(17, "4711")
    assert here != run_seed(18, 20.0).digest

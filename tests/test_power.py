"""A short share of the power cut campaign (tests/campaign/power.py)."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.ext4 import why_not
from tests.campaign.power_load import KEPT, PartitionLedger


@pytest.mark.long
def test_power_cuts_neither_lose_nor_duplicate_acknowledged_records(tmp_path: Path) -> None:
    if (reason := why_not(tmp_path / "try")) is not None:
        pytest.skip(f"power cannot be cut here: {reason}")
    campaign = [sys.executable, "-m", "tests.campaign.power", "--cuts", "3", "--unflushed", "2", "--seed", "30"]
    ended = subprocess.run([*campaign, "--no-evidence"], capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no violation" in ended.stdout


def ledger() -> PartitionLedger:
    made = PartitionLedger(topic=KEPT, partition=0, random_source=random.Random(1), problems=[])
    made.acknowledged = {0: b"1 ", 1: b"2 "}
    made.pending = [b"3 "]
    return made


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({0: b"1 ", 1: b"2 "}, None),
        ({0: b"1 ", 1: b"2 ", 2: b"3 "}, None),
        ({0: b"1 "}, "1 acknowledged records lost from offset 1"),
        ({0: b"1 ", 1: b"9 "}, "another record at the acknowledged offset 1"),
        ({0: b"1 ", 1: b"2 ", 2: b"2 "}, "doubled or out of order"),
        ({0: b"1 ", 1: b"2 ", 2: b"4 "}, "1 records that no client had in flight"),
    ],
)
def test_the_comparison_detects_lost_and_wrong_records(found: dict[int, bytes], problem: str | None) -> None:
    checked = ledger()
    checked.compare(found, 0, len(found), is_durable=True)
    assert (checked.problems == []) if problem is None else (problem in checked.problems[0])


def test_without_a_flush_lost_records_at_the_end_are_counted() -> None:
    checked = ledger()
    checked.compare({0: b"1 "}, 0, 1, is_durable=False)
    assert (checked.problems, checked.lost, checked.acknowledged) == ([], 1, {0: b"1 "})

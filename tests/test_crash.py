"""A short share of the kill campaign (tests/campaign/kills.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.kills import Ledger, problems


@pytest.mark.long
def test_kills_neither_lose_nor_duplicate_acknowledged_records(tmp_path: Path) -> None:
    campaign = [sys.executable, "-m", "tests.campaign.kills", "--kills", "8", "--seed", "20", "--no-evidence"]
    ended = subprocess.run(
        [*campaign, "--directory", str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "nothing lost, nothing doubled of" in ended.stdout


def test_the_check_detects_lost_duplicate_and_failed_records() -> None:
    ledger = Ledger(next_number=4, acknowledged={0: (0, 0), 3: (0, 1)}, failed={})
    good: dict[int, list[tuple[int, bytes]]] = {0: [(0, b"0"), (1, b"3")]}
    assert problems(ledger, good) == []
    assert problems(ledger, {0: [(0, b"0")]}) == ["3 was acknowledged at (0, 1), where None is"]
    assert any("doubles" in each for each in problems(ledger, {0: [*good[0], (2, b"3")]}))
    assert any("gaps" in each for each in problems(ledger, {0: [*good[0], (5, b"6")]}))
    ledger.failed[1] = "Timeout"
    assert problems(ledger, good) == ["1 failed: Timeout"]

"""Delayed EndTxn: with v1 the checker finds its effect on the producer's next transaction; with v2 there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.findings import KNOWN, REPORTED

pytest.importorskip("confluent_kafka", reason="reads what the history ends with")

from tests.history.held_end import play


def test_with_v1_a_held_end_ends_the_next_transaction(tmp_path: Path) -> None:
    report = play("kwire", "v1", tmp_path / "run")
    assert {finding.name for finding in report.of(KNOWN)} == {"aborted read", "torn transaction", "unseen"}
    assert not report.bad


def test_with_v2_a_held_end_is_rejected(tmp_path: Path) -> None:
    report = play("kwire", "v2", tmp_path / "run")
    assert {finding.verdict for finding in report.findings} == {REPORTED}

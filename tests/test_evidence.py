"""Files in docs/evidence: one line for each run, and a summary computed from all lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.campaign import evidence
from tests.campaign.evidence import FOLDER, Evidence, summary

CAMPAIGN = Evidence(
    name="kills",
    title="Kills",
    about="each run kills a broker",
    columns=("commit", "seed", "kills", "outcome"),
    counted="kills",
    sound="^nothing lost",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(evidence, "FOLDER", tmp_path)
    return tmp_path


def test_each_run_appends_one_json_line(folder: Path) -> None:
    CAMPAIGN.append("abc", 1, "1,000", "nothing lost of 5 records")
    CAMPAIGN.append("def", 2, 200, "2 records lost")
    head, *runs = map(json.loads, (folder / "kills.jsonl").read_text().splitlines())
    assert (head["title"], head["columns"]) == ("Kills", ["commit", "seed", "kills", "outcome"])
    assert [run["outcome"] for run in runs] == ["nothing lost of 5 records", "2 records lost"]


def test_the_summary_counts_runs_and_findings() -> None:
    row = next(line for line in summary().splitlines() if "kill -9" in line)
    runs = [json.loads(line) for line in (FOLDER / "kills.jsonl").read_text().splitlines()[1:]]
    assert f"| {len(runs)} | {sum(int(run['kills']) for run in runs):,} kills | 0 |" in row


def test_a_finding_is_named_with_its_commit(folder: Path) -> None:
    CAMPAIGN.append("abc", 1, 100, "nothing lost of 5 records")
    CAMPAIGN.append("def", 2, 200, "2 records lost")
    assert "| 2 | 300 kills | 1, the last at def | def | 2 records lost |" in summary(folder)


def test_the_page_is_the_summary_of_the_data() -> None:
    assert (FOLDER / "index.md").read_text() == summary()

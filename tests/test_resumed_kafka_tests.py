"""`python -m compat_tests.kafka_tests --all --minutes N`: what is run, kept, left, and not asked for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

# Not typed, and no part of what mypy checks.
judging: Any = importlib.import_module("compat_tests.kafka_tests.judging")
keeping: Any = importlib.import_module("compat_tests.kafka_tests.keeping")
proving: Any = importlib.import_module("compat_tests.kafka_tests.proving")
CLASSES = ["a.FirstTest", "a.SecondTest", "a.ThirdTest"]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """Which classes ran on which side; each run is one test that needs 100 seconds."""
    runs: list[tuple[str, str]] = []

    def run(selector: str, side: str, _shard: int) -> list[dict[str, object]]:
        runs.append((selector, side))
        return [{"id": f"{selector}.test", "name": "test()", "status": "passed", "seconds": 100.0}]

    monkeypatch.setattr(keeping, "run", run)
    monkeypatch.setattr(keeping, "CONTROL", tmp_path / "control")
    monkeypatch.setattr(keeping, "RESULTS", tmp_path / "kwire")
    return runs


def prove(**more: object) -> tuple[list[Any], list[str]]:
    results, left = proving.prove(CLASSES, jobs=1, say=lambda _line: None, **more)
    return results, left


def test_a_resumed_run_runs_nothing_that_has_run(ran: list[tuple[str, str]]) -> None:
    prove(resume=True)
    assert len(ran) == 6
    results, left = prove(resume=True)
    assert (len(ran), len(results), left) == (6, 3, [])


def test_without_resume_only_the_control_is_kept(ran: list[tuple[str, str]]) -> None:
    prove()
    prove()
    assert [side for _, side in ran].count("kwire") == 6
    assert [side for _, side in ran].count("kafka") == 3


def test_a_class_that_does_not_fit_is_left_but_for_the_first(ran: list[tuple[str, str]]) -> None:
    results, left = prove(resume=True, minutes=1)
    assert ([each.selector for each in results], left) == (CLASSES[:1], CLASSES[1:])
    results, left = prove(resume=True, minutes=1)
    assert ([each.selector for each in results], left) == (CLASSES[:2], CLASSES[2:])


def test_results_of_other_sources_are_not_used(ran: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    prove(resume=True)
    monkeypatch.setattr(keeping, "digest", lambda: "other")
    assert keeping.expected_seconds(CLASSES[0]) == 100
    prove(resume=True)
    assert [side for _, side in ran].count("kwire") == 6


def test_what_is_left_out_is_a_capability_and_needs_no_entry() -> None:
    left_out = {
        "id": "WordCountTest.shouldCount[groupProtocol=streams]",
        "name": "shouldCount(String).groupProtocol=streams",
        "status": "skipped",
        "reason": judging.NOT_SERVED_REASON,
        "seconds": 0,
    }
    verdict = judging.judge(left_out)
    assert (verdict.state, verdict.what, verdict.is_left_out) == (judging.CAPABILITY, "streams groups", True)
    assert (
        proving.complaints([proving.result_of("a.WordCountTest", [left_out], [{**left_out, "status": "passed"}])]) == []
    )


def test_a_test_that_skips_itself_stays_skipped() -> None:
    skipped = {"id": "WordCountTest.should", "name": "groupProtocol=streams", "status": "skipped", "reason": "no"}
    assert judging.judge(skipped).state == judging.SKIPPED

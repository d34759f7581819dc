"""Runs of `python -m compat_tests.kafka_tests --all --minutes N`: which tests run, are kept, are left over, or are
skipped.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

# Untyped, and not checked by mypy.
allowed: Any = importlib.import_module("compat_tests.kafka_tests.allowed")
evidence: Any = importlib.import_module("compat_tests.kafka_tests.evidence")
judging: Any = importlib.import_module("compat_tests.kafka_tests.judging")
keeping: Any = importlib.import_module("compat_tests.kafka_tests.keeping")
proving: Any = importlib.import_module("compat_tests.kafka_tests.proving")
CLASSES = ["a.FirstTest", "a.SecondTest", "a.ThirdTest"]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """Record which classes ran on which side; each run is one test that takes 100 seconds."""
    runs: list[tuple[str, str]] = []

    def run(selector: str, side: str, _shard: int, _left_out: Sequence[str] = ()) -> list[dict[str, object]]:
        runs.append((selector, side))
        return [{"id": f"{selector}.test", "name": "test()", "status": "passed", "seconds": 100.0}]

    monkeypatch.setattr(keeping, "run", run)
    monkeypatch.setattr(keeping, "CONTROL", tmp_path / "control")
    monkeypatch.setattr(keeping, "RESULTS", tmp_path / "kwire")
    return runs


def prove(**more: object) -> tuple[list[Any], list[str]]:
    results, left = proving.prove(CLASSES, jobs=1, say=lambda _line: None, **more)
    return results, left


def test_a_resumed_run_skips_finished_classes(ran: list[tuple[str, str]]) -> None:
    prove(resume=True)
    assert ran == [(name, "kwire") for name in CLASSES]
    results, left = prove(resume=True)
    assert (len(ran), len(results), left) == (3, 3, [])


def test_failures_that_no_entry_allows_are_run_against_kafka(
    ran: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"id": "SecondTest.test", "name": "test()", "status": "failed", "errors": ["no"], "seconds": 1.0}
    passing = keeping.run

    def run(selector: str, side: str, shard: int, left_out: Sequence[str] = ()) -> list[dict[str, object]]:
        ours = passing(selector, side, shard, left_out)
        return [failed] if (selector, side) == (CLASSES[1], "kwire") else list(ours)

    monkeypatch.setattr(keeping, "run", run)
    results, _ = prove(resume=True)
    assert [name for name, side in ran if side == "kafka"] == [CLASSES[1]]
    assert proving.complaints(results) == [
        "SecondTest.test: failed (no); on Kafka not run",
        "a.SecondTest.test: not run on kwire",
    ]


def test_runs_add_to_the_evidence_of_earlier_ones(ran: list[tuple[str, str]], tmp_path: Path) -> None:
    page = tmp_path / "kafka-tests.md"
    results, _ = prove(resume=True)
    evidence.write(results[:1], page, families=())
    evidence.write(results[1:], page, families=())
    evidence.write(results[:2], page, families=())
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| a.")]
    assert [(row[0], row[2:4]) for row in rows] == [(f"| {name}", ["1", "1"]) for name in sorted(CLASSES)]


def test_classes_without_a_row_come_first_and_new_rows_last(ran: list[tuple[str, str]], tmp_path: Path) -> None:
    page = tmp_path / "kafka-tests.md"
    results, _ = prove(resume=True)
    evidence.write(results[:2], page, families=())
    page.write_text(page.read_text().replace("| a.SecondTest | ", "| a.SecondTest | of-another-clone-"))
    assert evidence.oldest_first(CLASSES, page) == ["a.ThirdTest", "a.SecondTest", "a.FirstTest"]
    assert evidence.oldest_first(CLASSES, tmp_path / "none.md") == CLASSES


def test_without_resume_only_the_control_is_kept(ran: list[tuple[str, str]]) -> None:
    prove()
    prove()
    assert [side for _, side in ran].count("kwire") == 6
    assert [side for _, side in ran].count("kafka") == 3


def test_a_class_that_exceeds_the_time_is_left_unless_it_is_the_first(ran: list[tuple[str, str]]) -> None:
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


def test_methods_that_need_a_capability_are_left_out_unless_all_is_rechecked(
    ran: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {
        "FirstTest.test": (judging.CAPABILITY, "SASL"),
        "SecondTest.*": (judging.CAPABILITY, "TLS"),
        "ThirdTest.test[Type=Raft-Combined]": (judging.CAPABILITY, "TLS"),
        "ThirdTest.other": (judging.INSIDES, "BrokerServer.metrics"),
    }
    monkeypatch.setattr(allowed, "read", lambda: entries)
    given: list[Sequence[str]] = []

    def run(selector: str, side: str, _shard: int, left_out: Sequence[str] = ()) -> list[dict[str, object]]:
        given.append(left_out)
        name = selector.removeprefix("a.")
        reason = {"status": "skipped", "reason": judging.NOT_SERVED_REASON} if left_out else {"status": "passed"}
        return [{"id": f"{name}.test", "name": "test()", "seconds": 0.0, **reason}]

    monkeypatch.setattr(keeping, "run", run)
    results, _ = prove(resume=True, recheck=False)
    assert given == [["FirstTest.test", "SecondTest.*"]] * 3
    verdicts = [result.kwire[f"{result.selector.removeprefix('a.')}.test"] for result in results]
    assert [each.what for each in verdicts] == ["SASL", "TLS", "unknown"]
    control = [{"id": "FirstTest.test[Type=Raft-Isolated]", "status": "passed", "seconds": 1.0}]
    left_out = [{**control[0], "id": "FirstTest.test", "status": "skipped", "name": "", "reason": "not served yet"}]
    assert proving.complaints([proving.result_of(CLASSES[0], left_out, control)]) == []
    given.clear()
    prove()
    assert given[0] == []


def test_a_test_that_skips_itself_stays_skipped() -> None:
    skipped = {"id": "WordCountTest.should", "name": "groupProtocol=consumer", "status": "skipped", "reason": "no"}
    assert judging.judge(skipped).state == judging.SKIPPED

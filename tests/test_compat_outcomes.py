"""Comparison of kwire and Kafka: the result for tests that did not run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

outcomes: Any = importlib.import_module("compat_tests.harness.outcomes")  # untyped, and not checked by mypy


def report(tmp_path: Path, *skips: str) -> Any:
    path = tmp_path / "report.xml"
    cases = "".join(
        f'<testcase classname="compat_tests.row.test_a" name="test_{number}">{skip}</testcase>'
        for number, skip in enumerate(skips)
    )
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return outcomes.read_report(path)


def test_only_a_declared_skip_is_excused(tmp_path: Path) -> None:
    tests = report(
        tmp_path,
        "",
        f'<skipped message="{outcomes.DECLARED}no such Python"/>',
        '<skipped message="kcat is not there"/>',
    )
    assert list(tests.values()) == [outcomes.PASSED, outcomes.EXCUSED, outcomes.SKIPPED]
    both = outcomes.Outcomes(tests=tests)
    (complaint,) = outcomes.complaints(both, both)
    assert complaint.startswith("row.test_a::test_2: skipped on both")
    assert outcomes.complaints(both, None) == ["row.test_a::test_2: skipped on kwire"]


def test_a_skip_on_one_broker_counts_even_when_it_is_declared() -> None:
    (complaint,) = outcomes.complaints(
        outcomes.Outcomes(tests={"t": outcomes.EXCUSED}), outcomes.Outcomes(tests={"t": outcomes.PASSED})
    )
    assert outcomes.EXCUSED in complaint


def test_skipped_tests_are_shown_and_do_not_count_as_the_same(tmp_path: Path) -> None:
    both = outcomes.Outcomes(
        tests=report(tmp_path, "", f'<skipped message="{outcomes.DECLARED}x"/>', '<skipped message="y"/>')
    )
    assert (outcomes.cell(both), outcomes.same(both, both)) == ("1 (2 skipped)", "1")

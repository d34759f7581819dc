"""Planted bugs: each fails the tests that the catalogue names, and these tests pass without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.planted.bug import INVARIANTS
from tests.planted.catalogue import BUGS, LOG_BUGS
from tests.planted.page import PAGE, rendered
from tests.planted.run import NO_BUG
from tests.support.compiled import replaces_methods

ROOT = Path(__file__).parents[2]
FAILED = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """Return the test outcomes of every bug, from one process that forks a run of pytest for each."""
    command = [sys.executable, "-m", "tests.planted.run", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
@replaces_methods
def test_without_a_planted_bug_all_tests_pass(outcomes: dict[str, Any]) -> None:
    assert (outcomes[NO_BUG]["code"], outcomes[NO_BUG]["failed"]) == (pytest.ExitCode.OK, {})
    passed = outcomes[NO_BUG]["passed"]
    for bug in LOG_BUGS.values():
        for test in bug.found_by:
            assert any(name.startswith(test) for name in passed)


@pytest.mark.long
@replaces_methods
@pytest.mark.parametrize("name", LOG_BUGS)
def test_a_planted_bug_is_found(name: str, outcomes: dict[str, Any]) -> None:
    outcome = outcomes[name]
    assert outcome["code"] == FAILED
    for test in LOG_BUGS[name].found_by:
        assert any(failed.startswith(test) for failed in outcome["failed"]), f"{test} passes with the bug"
    assert not any("/tests/planted/" in where for where in outcome["failed"].values()), "the plant itself fails"


def test_each_bug_has_an_invariant_its_tests_and_a_description() -> None:
    assert len(BUGS) > 70
    for bug in BUGS.values():
        assert bug.breaks in INVARIANTS
        assert bug.found_by
        assert bug.does.endswith(".")
        assert "\n" not in bug.does


def test_no_bug_is_left_behind_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from kwire.log.segment import Segment

    before = Segment._verify
    with monkeypatch.context() as patch:
        BUGS["what is read first is not checked"].plant(patch)
        assert Segment._verify is not before
    assert Segment._verify is before


def test_an_unknown_bug_is_rejected() -> None:
    command = [sys.executable, "-m", "pytest", "--planted-bug", "no such bug", "tests/planted"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no bug is called 'no such bug'" in done.stderr


def test_the_page_is_that_of_the_catalogue() -> None:
    assert PAGE.read_text() == rendered(), "python -m tests.planted.page makes it anew"

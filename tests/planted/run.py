"""Runner of tests with each planted bug in the code; it prints which tests fail.

    python -m tests.planted.run                          every bug against the tests that the catalogue names for it
    python -m tests.planted.run --against tests/log      every bug against other tests
    python -m tests.planted.run --bug NAME               one bug

One process imports all modules and forks a child for each run, a few at a time; a child is an ordinary run of pytest
with --planted-bug. One more run without a bug covers all tests that are named.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.planted.catalogue import LOG_BUGS

AT_ONCE: Final = 2
SECONDS_MAX: Final = 60
"""Time limit of a child, ended by an alarm, because a bug may cause an endless wait."""
NO_BUG_SECONDS_MAX: Final = 300
"""Time limit of the run of all tests without a bug."""
NO_BUG: Final = ""

Outcome = dict[str, Any]


class Watcher:
    """Pytest plugin that records the outcome of each test."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed.setdefault(report.nodeid, getattr(crash, "path", ""))
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)


def _run_here(bug: str, tests: Sequence[str], report: Path, scratch: str) -> None:
    signal.alarm(SECONDS_MAX if bug else NO_BUG_SECONDS_MAX)
    watcher = Watcher()
    options = ["--planted-bug", bug] if bug else []
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    arguments = [*options, "-p", "no:randomly", "-q", "--tb=native", f"--basetemp={scratch}/pytest", *tests]
    code = pytest.main(arguments, plugins=[watcher])
    report.write_text(json.dumps({"code": int(code), "passed": watcher.passed, "failed": watcher.failed}))


def run_all(jobs: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Outcome]:
    """Return the test outcomes of each bug."""
    outcomes: dict[str, Outcome] = {}
    children: dict[int, tuple[str, Path]] = {}
    waiting = list(reversed(jobs))
    with tempfile.TemporaryDirectory(prefix="kwire-planted-") as scratch:
        while waiting or children:
            while waiting and len(children) < AT_ONCE:
                bug, tests = waiting.pop()
                own = Path(scratch) / str(len(waiting))
                own.mkdir()
                sys.stdout.flush()
                child = os.fork()
                if child == 0:
                    try:
                        _run_here(bug, tests, own / "report", str(own))
                    finally:
                        os._exit(0)
                children[child] = (bug, own / "report")
            child, _ = os.waitpid(-1, 0)
            bug, report = children.pop(child)
            outcomes[bug] = json.loads(report.read_text()) if report.exists() else {"code": -1}
    return {bug: outcomes[bug] for bug, _ in jobs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bug", action="append", choices=list(LOG_BUGS), metavar="NAME")
    parser.add_argument("--against", nargs="+", metavar="TEST")
    parser.add_argument("--json", action="store_true", help="for tests/planted/test_planted_bugs.py")
    chosen = parser.parse_args()
    jobs = [(name, chosen.against or LOG_BUGS[name].found_by) for name in chosen.bug or LOG_BUGS]
    named = sorted({test for _, tests in jobs for test in tests})
    outcomes = run_all([(NO_BUG, named), *jobs])
    if chosen.json:
        print(json.dumps(outcomes))
        return
    for bug, outcome in outcomes.items():
        print(f"{bug or '(no bug)'}: {outcome['code']}, {len(outcome.get('passed', ()))} passed")
        for test, where in outcome.get("failed", {}).items():
            print(f"    {test}    {where}")


if __name__ == "__main__":
    main()

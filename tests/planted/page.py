"""docs/planted-bugs.md, made from the catalogue:

python -m tests.planted.page
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.planted.bug import INVARIANTS, PlantedBug
from tests.planted.catalogue import BUGS

PAGE: Final = Path(__file__).parents[2] / "docs" / "planted-bugs.md"

_INTRODUCTION: Final = """\
# Planted bugs

What a suite is worth shows when the code is wrong. `tests/planted` holds {count} ways of being wrong: small changes to
the log and the coordinator of transactions that a test run makes for itself, of which the code in `kwire` knows
nothing. Each must be found.

    pytest --planted-bug "an older value wins" tests/log    any run of the suite, with that bug in the code
    python -m tests.planted.run                             every bug against the tests that should find it

`tests/planted/test_planted_bugs.py` does the latter in `make test`: each test that the table names must fail with its
bug and pass without it. Bugs that need a power cut to show are planted by `tests/crash/test_planted_bugs.py`, in
[states after a power cut](crash-states.md). This page is made by `python -m tests.planted.page`, and a test compares.

## What they break
"""


def rendered() -> str:
    """The page as the catalogue says it should be."""
    broken = {bug.breaks for bug in BUGS.values()}
    lines = [_INTRODUCTION.format(count=len(BUGS))]
    lines += [f"- **{key}**: {promise}" for key, promise in INVARIANTS.items() if key in broken]
    lines += ["", "## The bugs", "| bug | what is wrong | breaks | found by |", "|---|---|---|---|"]
    rows = sorted(BUGS.values(), key=lambda bug: list(INVARIANTS).index(bug.breaks))
    lines += [f"| {bug.name} | {bug.does} | {bug.breaks} | {_finders(bug)} |" for bug in rows]
    return "\n".join(lines) + "\n"


def _finders(bug: PlantedBug) -> str:
    if bug.workload:
        return f"the crash states of `{bug.workload}`"
    return ", ".join(f"`{_short(test)}`" for test in bug.found_by)


def _short(test: str) -> str:
    return test.removeprefix("tests/").replace("::runTest", "")


if __name__ == "__main__":
    PAGE.write_text(rendered())

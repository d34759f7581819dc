"""Generator of docs/planted-bugs.md from the catalogue:

python -m tests.planted.page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.planted.bug import INVARIANTS, PlantedBug
from tests.planted.catalogue import BUGS
from tests.planted.cluster_seeds import CLUSTER_SEARCH
from tests.planted.member_seeds import MEMBER_SEARCH
from tests.planted.quorum_seeds import QUORUM_SEARCH
from tests.planted.read_faults import READ_FAULTS, ReadFault
from tests.planted.seed_search import Found, Search

PAGE: Final = Path(__file__).parents[2] / "docs" / "planted-bugs.md"

_INTRODUCTION: Final = """\
# Planted bugs

What a suite is worth shows when the code is wrong. `tests/planted` holds {count} ways of being wrong: small changes to
the log, the coordinators, the quorum and replication that a test run makes for itself, of which the code in `kwire`
knows nothing. Each must be found.

    pytest --planted-bug "an older value wins" tests/log    any run of the suite, with that bug in the code
    python -m tests.planted.run                             every bug against the tests that should find it

`tests/planted/test_planted_bugs.py` does the latter in `make test-long`: each test that the table names must fail with
its bug and pass without it. Bugs that need a power cut to show are planted by `tests/crash/test_planted_bugs.py`, in
[states after a power cut](crash-states.md); those of the quorum and of the cluster in
[the simulation](simulation.md). This page is made by `python -m tests.planted.page`, and a test compares.

## What they break
"""


TITLES: Final = {"quorum": "quorum", "cluster": "cluster", "member": "cluster's groups"}
_SEEDS: Final = """\
## Bugs of the {title}

Each was planted into the simulated {scenario} (`python -m tests.simulation.{scenario}{seconds}`), and
one seed after the other was run until one failed: from {starts} starting seeds, of whose counts the table has the
median and the largest. A seed fails by a rule of the simulation (the invariant that it checks), by an assertion of
kwire, or by a node that rejects to start. `python -m tests.planted.{name}_seeds` measures anew; `make test-long`
finds again what few seeds find.

| bug | what is wrong | breaks | seeds, median | largest | found by |
|---|---|---|---|---|---|
"""


_READ: Final = """\
## Faults that reading found, and the checks that find them

Reviewers found these faults by reading, at a time when every search was clean. Each is planted again, or failed in a
test of Apache Kafka. `fuzz/test_fuzzers.py` runs the fuzzers of `tests/fuzz`: random operations from a seed against a
model (`make campaign FUZZ=3600` runs more). `cluster/test_drawn_images.py` compares images with those that Apache
Kafka's classes made of the same records. The simulated cluster needs as many seeds as the median says.

| fault | found by |
|---|---|"""


def rendered() -> str:
    """Return the contents of the page."""
    broken = {bug.breaks for bug in BUGS.values()}
    lines = [_INTRODUCTION.format(count=len(BUGS))]
    lines += [f"- **{key}**: {promise}" for key, promise in INVARIANTS.items() if key in broken]
    lines += ["", "## The bugs", "| bug | what is wrong | breaks | found by |", "|---|---|---|---|"]
    searches = QUORUM_SEARCH, CLUSTER_SEARCH, MEMBER_SEARCH
    searched = {name for search in searches for name in search.bugs}
    rows = _by_invariant(bug for name, bug in BUGS.items() if name not in searched)
    lines += [f"| {bug.name} | {bug.does} | {bug.breaks} | {_finders(bug)} |" for bug in rows]
    for search in searches:
        lines += ["", *_section(search)]
    lines += ["", *_read_faults()]
    return "\n".join(lines) + "\n"


def _read_faults() -> list[str]:
    return [_READ, *(f"| {fault.does} | {'; '.join(_judges(fault))} |" for fault in READ_FAULTS)]


def _judges(fault: ReadFault) -> list[str]:
    recorded = CLUSTER_SEARCH.recorded()
    judges = []
    for name in fault.bugs:
        if name in recorded:
            found = recorded[name]
            judges.append(f"the simulated cluster, {found.median:g} seeds (*{name}*)")
        else:
            judges.append(f"{_finders(BUGS[name])} (*{name}*)")
    if fault.kafka_test:
        judges.append(f"Apache Kafka's `{fault.kafka_test}`, which failed before the mend")
    return judges


def _by_invariant(bugs: Iterable[PlantedBug]) -> list[PlantedBug]:
    return sorted(bugs, key=lambda bug: list(INVARIANTS).index(bug.breaks))


def _section(search: Search) -> list[str]:
    results = search.recorded()
    seconds = "" if search.seconds is None else f" --seconds {search.seconds:g}"
    head = _SEEDS.format(
        title=TITLES[search.title],
        scenario=search.scenario,
        name=search.title,
        seconds=seconds,
        starts=len(search.starts),
    ).rstrip()
    return [head, *(_row(bug, results) for bug in _by_invariant(search.bugs.values()) if bug.name in results)]


def _row(bug: PlantedBug, results: dict[str, Found]) -> str:
    found = results[bug.name]
    cells = (bug.name, bug.does, bug.breaks, f"{found.median:g}", found.most, ", ".join(sorted(set(found.rules))))
    return f"| {' | '.join(map(str, cells))} |"


def _finders(bug: PlantedBug) -> str:
    if bug.workload:
        return f"the crash states of `{bug.workload}`"
    return ", ".join(f"`{_short(test)}`" for test in bug.found_by)


def _short(test: str) -> str:
    return test.removeprefix("tests/").replace("::runTest", "")


if __name__ == "__main__":
    PAGE.write_text(rendered())

"""docs/evidence/kafka-tests.md: what runs of all classes gave, class by class, each with the commit that it ran at.

A run replaces the rows of its classes and keeps those of others, and takes those first that have no row or an old one,
so that the table grows, and is renewed, with runs of limited time.
"""

import collections
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests.harness.paths import ROOT
from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.kafka_tests.choosing import FAMILIES, family_tests
from compat_tests.kafka_tests.proving import STATES, Result, cells, needs

PATH = ROOT / "docs" / "evidence" / "kafka-tests.md"
HEADINGS = ("class", "commit", "tests", *STATES, "passed on Kafka", "seconds", "needs")
COUNTS = slice(2, 3 + len(STATES))


def write(results: Sequence[Result], path: Path = PATH, families: Sequence[str] = (*FAMILIES,)) -> None:
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    rows = _read(path)
    for result in results:
        wanted = collections.Counter(
            {what: count for counter in needs([result]).values() for what, count in counter.items()}
        )
        said = ", ".join(f"{what} {count}" for what, count in wanted.most_common())
        rows[result.selector] = [result.selector, commit, *cells(result), said]
    path.write_text("".join(f"{line}\n" for line in _page(rows, families)))


def oldest_first(selectors: Sequence[str], path: Path = PATH) -> list[str]:
    """Return the selectors in the order in which runs of limited time take them: those without a row come first."""
    rows = _read(path)
    commits = {rows[each][HEADINGS.index("commit")] for each in selectors if each in rows}
    times = {commit: _time(commit) for commit in commits}
    return sorted(selectors, key=lambda each: times[rows[each][HEADINGS.index("commit")]] if each in rows else -1)


def _time(commit: str) -> int:
    """Return when a commit was made, in seconds; 0 for one that is not in this clone."""
    command = ["git", "show", "--no-patch", "--format=%ct", commit]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(shown.stdout) if shown.returncode == 0 else 0


def _page(rows: dict[str, list[str]], families: Sequence[str]) -> Iterator[str]:
    yield f"# The integration tests of Apache Kafka {KAFKA_VERSION} on kwire"
    yield ""
    yield "Written by `make campaign KAFKA_TESTS=1`. A test is one invocation; `compat_tests/kafka_tests/allowed.txt`"
    yield "names each that does not pass, with its reason; `NOT_SERVED` in `judging.py` names those that are left out"
    yield "because a parameter asks for what is not served. Methods that need a capability by the list are left out"
    yield "and count once each. Kafka's own cluster runs the classes of"
    yield "`make compat ROW=kafka-tests`, and those of which something failed that the list did not name."
    yield ""
    yield _row(("family", "classes", "run", "tests", *STATES))
    yield _row(["---"] * (4 + len(STATES)))
    classes = {family: [*family_tests(family)] for family in families}
    everything = sorted(set().union(*classes.values()))
    for family, names in [*classes.items(), ("all", everything)]:
        own = [rows[name] for name in names if name in rows]
        sums = [sum(int(row[place]) for row in own) for place in range(COUNTS.start, COUNTS.stop)]
        yield _row([family, str(len(names)), str(len(own)), *map(str, sums)])
    yield ""
    yield _row(HEADINGS)
    yield _row(["---"] * len(HEADINGS))
    yield from (_row(rows[name]) for name in sorted(rows))


def _read(path: Path) -> dict[str, list[str]]:
    """Return the rows of classes that an earlier run wrote."""
    if not path.exists():
        return {}
    rows = [line.strip("|").split("|") for line in path.read_text().partition(f"| {HEADINGS[0]} ")[2].splitlines()[2:]]
    return {row[0].strip(): [each.strip() for each in row] for row in rows if len(row) == len(HEADINGS)}


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"

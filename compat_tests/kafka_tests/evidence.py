"""Writer of docs/evidence/kafka-tests.md: results of all classes, each with the commit at which it ran.

A run replaces the rows of its classes and keeps all others. It begins with classes that have no row or an old row, so
that runs of limited time complete and renew the table.
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
    """Return the selectors in order for runs of limited time: first those without a row, then the oldest rows."""
    rows = _read(path)
    commits = {rows[each][HEADINGS.index("commit")] for each in selectors if each in rows}
    times = {commit: _time(commit) for commit in commits}
    return sorted(selectors, key=lambda each: times[rows[each][HEADINGS.index("commit")]] if each in rows else -1)


def _time(commit: str) -> int:
    """Return the time of a commit, in seconds; 0 if the commit is not in this clone."""
    command = ["git", "show", "--no-patch", "--format=%ct", commit]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(shown.stdout) if shown.returncode == 0 else 0


def _page(rows: dict[str, list[str]], families: Sequence[str]) -> Iterator[str]:
    yield f"# The integration tests of Apache Kafka {KAFKA_VERSION} on kwire"
    yield ""
    yield "Written by `make campaign KAFKA_TESTS=1`. A test is one invocation. The allow-list,"
    yield "`compat_tests/kafka_tests/allowed.txt`, names each test that does not pass, with its reason. Methods"
    yield "that it lists for a missing capability do not run, and count once each."
    yield "The control, Kafka's own cluster, runs the classes of `make compat ROW=kafka-tests`, and classes with a"
    yield "failure that is not in the allow-list."
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
    """Return the rows that earlier runs wrote, by class."""
    if not path.exists():
        return {}
    rows = [line.strip("|").split("|") for line in path.read_text().partition(f"| {HEADINGS[0]} ")[2].splitlines()[2:]]
    return {row[0].strip(): [each.strip() for each in row] for row in rows if len(row) == len(HEADINGS)}


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"

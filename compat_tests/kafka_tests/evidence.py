"""docs/evidence/kafka-tests.md: what a run of all classes gave, as one table written by the campaign."""

import subprocess
from collections.abc import Sequence

from compat_tests.harness.paths import ROOT
from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.kafka_tests.choosing import family_of
from compat_tests.kafka_tests.proving import STATES, Result, cells, needs
from compat_tests.kafka_tests.running import simple

PATH = ROOT / "docs" / "evidence" / "kafka-tests.md"
HEADINGS = ("class", "tests", *STATES, "passed on Kafka", "seconds")


def write(results: Sequence[Result]) -> None:
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    families: dict[str, list[Result]] = {}
    for result in results:
        families.setdefault(family_of(result.selector), []).append(result)
    lines = [
        f"# The integration tests of Apache Kafka {KAFKA_VERSION} on kwire",
        "",
        f"Written by `make campaign KAFKA_TESTS=1` at commit {commit.stdout.strip()}. A test is one invocation;",
        "`compat_tests/kafka_tests/allowed.txt` names each that does not pass, with its reason; `NOT_SERVED` in",
        "`judging.py` names those that are left out because a parameter asks for what is not served.",
        "",
        _row(("family", "classes", *HEADINGS[1:])),
        _row(["---"] * (len(HEADINGS) + 1)),
        *(_row([family, str(len(own)), *_sums(own)]) for family, own in families.items()),
        _row(["all", str(len(results)), *_sums(results)]),
        "",
        _row(HEADINGS),
        _row(["---"] * len(HEADINGS)),
        *(_row([simple(result.selector), *cells(result)]) for result in results),
        "",
    ]
    for state, counter in needs(results).items():
        lines += [_row((state, "tests")), _row(("---", "---"))]
        lines += [*(_row((what, str(count))) for what, count in counter.most_common()), ""]
    PATH.write_text("\n".join(lines))


def _sums(results: Sequence[Result]) -> list[str]:
    columns = zip(*(map(int, cells(result)) for result in results), strict=True)
    return [str(sum(column)) for column in columns]


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"

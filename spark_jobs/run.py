"""Run the Spark suite against kwire, Apache Kafka or both, and print one table: `make spark`.

A row is a test module, such as batch, streaming or exactly_once; --help lists them. One Spark session serves all rows
of a run. The exit status is 0 only if every test passed. With both brokers, each test must also have the same result on
both, except those that docs/differences.md lists. --matrix runs the tests that each version of Spark must pass.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from compat_tests.harness import suites
from compat_tests.harness.install import install
from compat_tests.harness.outcomes import FAILED, PASSED, Outcomes, complaints
from compat_tests.harness.paths import ROOT
from compat_tests.harness.reference import KAFKA_VERSION, class_path
from spark_jobs.versions import spark_version

TESTS = ROOT / "spark_jobs" / "tests"
ROWS = [path.stem.removeprefix("test_") for path in sorted(TESTS.glob("test_*.py"))]
MATRIX = ("batch", "exactly_once", "pipeline", "pipeline_tables", "records", "sink", "streaming")
"""Rows with tests for each version of Spark. The others need not even be importable with an old one."""
JAVA_VERSION_MIN = 17
SECONDS_MAX = 900

console = Console(width=110)


def require_java() -> None:
    install("java")
    text = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "(\d+)', text)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        raise SystemExit(
            f"Spark {spark_version()} needs Java {JAVA_VERSION_MIN} or newer, the java on the path says: {text}"
        )


def pytest_arguments(row: str | None, *, short: bool, matrix: bool) -> list[str]:
    """Return pytest's arguments; ROW is a row's name or else a part of test names."""
    rows = [row] if row in ROWS else MATRIX if matrix else []
    arguments = [str(TESTS / f"test_{each}.py") for each in rows] or [str(TESTS)]
    if row is not None and row not in ROWS:
        arguments += ["-k", row]
    marks = [*("matrix",) * matrix, *("short",) * short]
    return [*arguments, *(["-m", " and ".join(marks)] if marks else []), *("--standalone",) * matrix]


def run_suite(arguments: Sequence[str], broker: str) -> Outcomes:
    with tempfile.TemporaryDirectory() as scratch:
        # Modules get the names of the project, where `tests` is another package.
        arguments = [*arguments, "--rootdir", str(ROOT), "--broker", broker]
        arguments += ["--show-capture=no", "--basetemp", str(Path(scratch) / "tests")]
        outcomes, output = suites.run_suite(ROOT / "spark_jobs" / "pytest.ini", arguments, SECONDS_MAX)
    if outcomes.count(FAILED):
        console.print(shortened(output), markup=False, highlight=False)
    return outcomes


def shortened(output: str) -> str:
    """Remove the JVM's stack traces, which are longer than the rest of the output."""
    return "\n".join(line for line in output.splitlines() if not re.match(r"E\s+at ", line))


def row_of(test: str) -> str:
    return test.partition("::")[0].rpartition(".")[2].removeprefix("test_")


def passed(outcomes: Outcomes | None, tests: Sequence[str]) -> str:
    if outcomes is None:
        return "-"
    return "did not run" if outcomes.problem else str(sum(outcomes.tests.get(test) == PASSED for test in tests))


def same(kwire: Outcomes | None, kafka: Outcomes | None, tests: Sequence[str]) -> str:
    if kwire is None or kafka is None:
        return "-"
    return str(sum(kwire.tests.get(test) == kafka.tests.get(test) for test in tests))


def table(kwire: Outcomes | None, kafka: Outcomes | None) -> Table:
    shown = Table(title=f"PySpark {spark_version()} and its Kafka connector on kwire and Apache Kafka {KAFKA_VERSION}")
    shown.add_column("row")
    for heading in ("tests", "passed on kwire", "passed on Kafka", "same on Kafka"):
        shown.add_column(heading, justify="right")
    tests = sorted({test for outcomes in (kwire, kafka) if outcomes for test in outcomes.tests})
    for row in sorted({row_of(test) for test in tests}):
        own = [test for test in tests if row_of(test) == row]
        shown.add_row(row, str(len(own)), passed(kwire, own), passed(kafka, own), same(kwire, kafka, own))
    return shown


def against(kwire: Outcomes | None, kafka: Outcomes | None) -> list[str]:
    if kwire is not None:
        return complaints(kwire, kafka)
    assert kafka is not None
    failed = [f"{test}: failed on Kafka" for test, outcome in kafka.tests.items() if outcome == FAILED]
    return failed + ([kafka.problem] if kafka.problem else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", help=f"one of {', '.join(ROWS)}, or a part of tests' names")
    parser.add_argument("--matrix", action="store_true", help="only the tests for each version of Spark")
    parser.add_argument("--short", action="store_true", help="only the tests marked short")
    parser.add_argument("--broker", choices=("kwire", "kafka", "both"), default="kwire")
    arguments = parser.parse_args()
    require_java()
    if arguments.broker != "kwire":
        install("kafka")
        class_path()
    started = time.monotonic()
    tests = pytest_arguments(arguments.row, short=arguments.short, matrix=arguments.matrix)
    kwire = run_suite(tests, "kwire") if arguments.broker != "kafka" else None
    kafka = run_suite(tests, "kafka") if arguments.broker != "kwire" else None
    console.print(table(kwire, kafka))
    console.print(f"{time.monotonic() - started:.0f} s")
    found = against(kwire, kafka)
    for each in found:
        console.print(each, markup=False, highlight=False, soft_wrap=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

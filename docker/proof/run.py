"""Build the image, run its tests through testcontainers and Compose, print one table: `make docker`.

Containers, networks and volumes of the run are removed when it ends, also after a failure; the images are kept for
the next build.
"""

import argparse
import contextlib
import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence

from proof.daemon import docker_daemon
from proof.image import BASE_IMAGE, build, docker, require_base_image
from rich.console import Console
from rich.table import Table

from compat_tests.harness import suites
from compat_tests.harness.outcomes import FAILED, PASSED, Outcomes, cell
from compat_tests.harness.paths import ROOT

IMAGE = "kwire:proof"
SPARK_IMAGE = "kwire-spark:proof"
TESTS = ROOT / "docker" / "tests"
ROWS = [path.stem.removeprefix("test_") for path in sorted(TESTS.glob("test_*.py"))]
SECONDS_MAX = 600

console = Console(width=110)


@contextlib.contextmanager
def removed_afterwards(run: str) -> Iterator[None]:
    """Remove every container, network and volume with the run's label or Compose project when the block ends."""
    try:
        yield
    finally:
        for label in (f"kwire.run={run}", f"com.docker.compose.project={run}"):
            remove(("container", "ls", "--all"), ("rm", "--force", "--volumes"), label)
            remove(("network", "ls"), ("network", "rm"), label)
            remove(("volume", "ls"), ("volume", "rm", "--force"), label)


def remove(listing: Sequence[str], removal: Sequence[str], label: str) -> None:
    found = docker(*listing, "--quiet", "--filter", f"label={label}", check=False).split()
    if found:
        docker(*removal, *found, check=False)


def run_suite(row: str, run: str) -> Outcomes:
    arguments = [str(TESTS / f"test_{row}.py"), "--image", IMAGE, "--spark-image", SPARK_IMAGE, "--run", run]
    # The library's own cleanup needs another image to be pulled; this run removes its containers itself instead.
    environment = os.environ | {"TESTCONTAINERS_RYUK_DISABLED": "true"}
    outcomes, output = suites.run_suite(ROOT / "docker" / "pytest.ini", arguments, SECONDS_MAX, environment=environment)
    if outcomes.problem or outcomes.count(FAILED):
        console.print(output[-12_000:], markup=False, highlight=False)
    return outcomes


def timed(what: str, started: float) -> None:
    console.print(f"{what}: {time.monotonic() - started:.0f} s", highlight=False)


def prove(rows: Sequence[str]) -> bool:
    started = time.monotonic()
    timed(f"{BASE_IMAGE} {require_base_image()}", started)
    started = time.monotonic()
    build(IMAGE)
    timed(f"{IMAGE} built", started)
    started = time.monotonic()
    build(SPARK_IMAGE, "spark.Dockerfile")
    timed(f"{SPARK_IMAGE} built", started)
    table = Table(title="The image of kwire under outside clients")
    table.add_column("row")
    for heading in ("tests", "passed", "seconds"):
        table.add_column(heading, justify="right")
    good = True
    for row in rows:
        started = time.monotonic()
        outcomes = run_row(row)
        good = good and not outcomes.problem and outcomes.count(PASSED) == len(outcomes.tests)
        table.add_row(row, str(len(outcomes.tests)), cell(outcomes), f"{time.monotonic() - started:.0f}")
    console.print(table)
    return good


def run_row(row: str) -> Outcomes:
    run = f"kwire{uuid.uuid4().hex[:8]}"
    with removed_afterwards(run):
        return run_suite(row, run)


def main() -> int:
    parser = argparse.ArgumentParser(description="Test the image with testcontainers and Compose.")
    parser.add_argument("--row", choices=ROWS, help="run this row only")
    row = parser.parse_args().row
    with docker_daemon():
        return 0 if prove([row] if row else ROWS) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Coverage report: lines and branches of cluster, coordinator, log and server that no simulated seed runs.

    python -m tests.campaign.coverage_of_seeds --seeds 500 --directory DIRECTORY

runs seeds 1 to 500 of the cluster and of the quorum, then the other tests by folder. Each share runs in its own process
under slipcover. The command writes docs/evidence/coverage.md: the code that no seed runs, with the tests that run it,
or a reason from coverage_reasons.txt. Completed shares of an earlier run of the same commit in the same directory are
kept.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.coverage_report import write_page
from tests.campaign.evidence import FOLDER, current_commit

ROOT = Path(__file__).parents[2]
SOURCES = ",".join(f"kwire/{package}" for package in ("cluster", "coordinator", "log", "server"))
SCENARIOS = ("cluster", "quorum")
SEEDS_OF_A_SHARE = 10
"""Number of seeds in a share, which are lost when the campaign is stopped."""
TESTS = (
    *("cluster", "coordinator", "log", "server", "fuzz", "crash", "hostile", "cli", "history", "upgrade"),
    *("test_embedded.py", "test_controllers.py"),
)
"""Tests that may run code that no seed runs."""
PYTEST = ("pytest", "-q", "-W", "ignore:Module already imported")
"""Pytest command without the warning about a module that slipcover has imported."""


@dataclass(frozen=True, slots=True)
class Share:
    """Part of the campaign: a process and its coverage file."""

    name: str
    module: Sequence[str]
    output: Path

    @property
    def data(self) -> Path:
        return self.output / f"{self.name}.json"

    def run(self) -> str:
        """Run the process and return its failures. Raises RuntimeError if nothing was measured."""
        scratch = self.data.with_suffix(".part")
        measured = [sys.executable, "-m", "slipcover", "--branch", "--json", "--source", SOURCES, "--out", str(scratch)]
        ended = subprocess.run(
            [*measured, "-m", *self.module], cwd=ROOT, capture_output=True, text=True, check=False, errors="replace"
        )
        if not scratch.exists():
            raise RuntimeError(f"{self.name}: {ended.stderr[-1000:]}")
        scratch.rename(self.data)
        return "" if ended.returncode == 0 else f"{self.name}: {ended.stdout[-1000:]}{ended.stderr[-1000:]}"


def shares(seeds: int, output: Path) -> Iterator[Share]:
    for scenario in SCENARIOS:
        for first in range(1, seeds + 1, SEEDS_OF_A_SHARE):
            last = min(first + SEEDS_OF_A_SHARE - 1, seeds)
            module = ("tests.campaign.coverage_share", scenario, str(first), str(last))
            yield Share(f"seeds-{scenario}-{first}-{last}", module, output)
    for tests in TESTS:
        yield Share(f"tests-{tests.removesuffix('.py')}", (*PYTEST, f"tests/{tests}"), output)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=500)
    arguments.add_argument("--directory", type=Path, help="what is done is kept here; by default a new temporary one")
    arguments.add_argument("--workers", type=int, default=2)
    given = arguments.parse_args()
    commit = current_commit()
    directory = (given.directory or Path(tempfile.mkdtemp(prefix="kwire-coverage-"))) / commit
    directory.mkdir(parents=True, exist_ok=True)
    left = [share for share in shares(given.seeds, directory) if not share.data.exists()]
    with ThreadPoolExecutor(given.workers) as pool:
        failed = [problem for problem in pool.map(Share.run, left) if problem]
    write_page(FOLDER / "coverage.md", commit, directory, ROOT)
    print("\n".join(failed) or f"{given.seeds} seeds of each scenario, no failure")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()

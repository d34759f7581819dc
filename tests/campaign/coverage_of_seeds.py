"""Code of the broker that no simulated seed runs: lines and branches of cluster, coordinator, log and server.

    python -m tests.campaign.coverage_of_seeds --seeds 500 --directory DIRECTORY

runs seeds 1 to 500 of the cluster and of the quorum, and writes docs/evidence/coverage.md. Seeds that an earlier run of
the same commit in the same directory has finished are not run again.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import logging
import multiprocessing
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.campaign.evidence import FOLDER, current_commit

ROOT = Path(__file__).parents[2]
PACKAGES = ("cluster", "coordinator", "log", "server")
SCENARIOS = ("cluster", "quorum")
LEFT_OUT = ("kwire/log/inspection/*",)
"""What only `kwire log` uses."""
WORKERS = 2
SEEDS_OF_A_WORKER = 10
"""Seeds that a process runs before it saves what they covered: what is lost when the campaign is stopped."""
LINES_SHOWN_MAX = 200
"""Characters of a row's line numbers."""


def _run_share(scenario: str, seeds: Sequence[int], directory: str) -> str:
    """In a process of its own: measurement begins before anything of the broker is imported."""
    import coverage

    measured = coverage.Coverage(
        source_pkgs=[f"kwire.{package}" for package in PACKAGES],
        branch=True,
        data_file=f"{directory}/{scenario}-{seeds[0]}-{seeds[-1]}.coverage",
        config_file=False,
    )
    logging.disable(logging.CRITICAL)  # of nodes that fail as they should
    measured.start()
    failed = []
    run_seed = importlib.import_module(f"tests.simulation.{scenario}").run_seed
    for seed in seeds:
        try:
            run_seed(seed)
        except AssertionError as error:
            failed.append(f"{scenario} {seed}: {error}")
    measured.stop()
    measured.save()
    return "; ".join(failed)


def _shares(seeds: int, directory: Path) -> list[tuple[str, Sequence[int], str]]:
    """Those that are not done yet."""
    shares: list[tuple[str, Sequence[int], str]] = []
    for scenario in SCENARIOS:
        for first in range(1, seeds + 1, SEEDS_OF_A_WORKER):
            share = range(first, min(first + SEEDS_OF_A_WORKER, seeds + 1))
            if not (directory / f"{scenario}-{share[0]}-{share[-1]}.coverage").exists():
                shares.append((scenario, share, str(directory)))
    return shares


def _report(directory: Path) -> dict[str, Any]:
    import coverage

    combined = coverage.Coverage(data_file=str(directory / "combined"), config_file=False, branch=True)
    combined.combine([str(each) for each in sorted(directory.glob("*.coverage"))], keep=True)
    out = directory / "report.json"
    combined.json_report(outfile=str(out), omit=[str(ROOT / each) for each in LEFT_OUT])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def _page(commit: str, seeds: int, report: dict[str, Any]) -> str:
    totals = report["totals"]
    out = io.StringIO()
    out.write(
        "# Code that no simulated seed runs\n\nWritten by `make campaign COVERAGE=500`, "
        f"at {commit}: seeds 1 to {seeds} of the cluster and of the quorum.\n"
        f"{totals['covered_lines']:,} of {totals['num_statements']:,} lines and "
        f"{totals['covered_branches']:,} of {totals['num_branches']:,} branches of "
        f"{', '.join('kwire.' + package for package in PACKAGES)} ran.\n\n"
        "| file | lines | not run | branches not taken | lines not run |\n|---|---|---|---|---|\n"
    )
    files = sorted(report["files"].items(), key=lambda item: -item[1]["summary"]["missing_lines"])
    for name, found in files:
        summary = found["summary"]
        if summary["missing_lines"] or summary["missing_branches"]:
            lines = _ranges(found["missing_lines"])
            shown = lines if len(lines) <= LINES_SHOWN_MAX else f"{lines[:LINES_SHOWN_MAX].rsplit(',', 1)[0]}, ..."
            cells = (Path(name).as_posix().partition("kwire/")[2], summary["num_statements"], summary["missing_lines"])
            out.write(f"| {' | '.join(map(str, cells))} | {summary['missing_branches']} | {shown} |\n")
    return out.getvalue()


def _ranges(lines: Sequence[int]) -> str:
    """3, 5-7 for 3, 5, 6, 7."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and line == ranges[-1][-1] + 1:
            ranges[-1][1:] = [line]
        else:
            ranges.append([line])
    return ", ".join("-".join(map(str, each)) for each in ranges)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=500)
    arguments.add_argument("--directory", type=Path, help="what is done is kept here; by default a new temporary one")
    given = arguments.parse_args()
    commit = current_commit()
    directory = (given.directory or Path(tempfile.mkdtemp(prefix="kwire-coverage-"))) / commit
    directory.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(WORKERS, maxtasksperchild=1) as pool:
        jobs = [pool.apply_async(_run_share, share) for share in _shares(given.seeds, directory)]
        failed = [problem for job in jobs if (problem := job.get())]
    (FOLDER / "coverage.md").write_text(_page(commit, given.seeds, _report(directory)))
    print("\n".join(failed) or f"{given.seeds} seeds of each scenario, no failure")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()

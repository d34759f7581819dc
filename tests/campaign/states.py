"""Go through the states that a power cut may leave, many more than `make test` does.

    python -m tests.campaign.states --states 200000 --seed 1000

The states are shared among the workloads of tests/crash; each takes seeds one after the other from the given one on.
A row for each run is added to docs/evidence/states.md, with the seeds that it went through.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.crash.explore import Outcome
from tests.crash.workloads import Found, go_through, shares

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "states.md"
WORKERS = 2
FIRST_SEED = 1000
"""Below are those of `make test`."""


class Share:
    """What came of one workload."""

    def __init__(self, name: str, states: int, seed: int) -> None:
        self.name = name
        self.outcome: Outcome
        self.found: list[Found]
        self.outcome, self.found, self.next_seed = go_through(name, states=states, first_seed=seed)

    def __str__(self) -> str:
        outcome = self.outcome
        return f"{self.name}: {outcome.states} states of {outcome.operations} operations"


def run(states: int, seed: int) -> Iterator[Share]:
    """Each workload's share, as they end."""
    with ProcessPoolExecutor(WORKERS) as pool:
        yield from (job.result() for job in [pool.submit(Share, *share, seed) for share in shares(states)])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--states", type=int, default=200_000)
    arguments.add_argument("--seed", type=int, default=FIRST_SEED)
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    began, commit = time.monotonic(), _commit()
    done: list[Share] = []
    for share in run(given.states, given.seed):
        done.append(share)
        print(share, *share.found, sep="\n  ", flush=True)
    found = [each for share in done for each in share.found]
    tried = sum(share.outcome.states for share in done)
    outcome = f"{len(found)} violations"
    if not given.no_evidence:
        last = max(share.next_seed for share in done) - 1
        _append_evidence(commit, f"{given.seed} to {last}", tried, time.monotonic() - began, outcome)
    print(f"{tried} states: {outcome}")
    raise SystemExit(bool(found))


def _commit() -> str:
    """What is run, which is not what is there when it ends."""
    ended = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def _append_evidence(commit: str, seeds: str, states: int, seconds: float, outcome: str) -> None:
    EVIDENCE.parent.mkdir(parents=True, exist_ok=True)
    if not EVIDENCE.exists():
        EVIDENCE.write_text(
            "# States after a power cut\n\nWritten by `make campaign`; what a state is, docs/crash-states.md tells.\n\n"
            "| commit | seeds | states | seconds | outcome |\n|---|---|---|---|---|\n"
        )
    with EVIDENCE.open("a") as file:
        file.write(f"| {commit} | {seeds} | {states} | {seconds:.0f} | {outcome} |\n")


if __name__ == "__main__":
    main()

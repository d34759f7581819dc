"""Campaign with the states that a power cut may leave, many more than in `make test`.

    python -m tests.campaign.states --states 200000 --seed 1000

The states are divided among the workloads of tests/crash; each takes seeds in order from the given one. A row for each
run, with its seeds, is added to docs/evidence/states.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.campaign.evidence import Evidence, current_commit
from tests.crash.explore import Outcome
from tests.crash.workloads import Found, go_through, shares

EVIDENCE = Evidence(
    name="states",
    title="States after a power cut",
    about="enumerated states of a disk (docs/crash-states.md)",
    columns=("commit", "seeds", "states", "seconds", "outcome"),
    counted="states",
    sound=r"^0 violations",
)
WORKERS = 2
FIRST_SEED = 1000
"""First seed after those of `make test`."""


class Share:
    """Result of one workload."""

    def __init__(self, name: str, states: int, seed: int) -> None:
        self.name = name
        self.outcome: Outcome
        self.found: list[Found]
        self.outcome, self.found, self.next_seed = go_through(name, states=states, first_seed=seed)

    def __str__(self) -> str:
        outcome = self.outcome
        return f"{self.name}: {outcome.states} states of {outcome.operations} operations"


def run(states: int, seed: int) -> Iterator[Share]:
    """Yield the share of each workload at its end."""
    with ProcessPoolExecutor(WORKERS) as pool:
        yield from (job.result() for job in [pool.submit(Share, *share, seed) for share in shares(states)])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--states", type=int, default=200_000)
    arguments.add_argument("--seed", type=int, default=FIRST_SEED)
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    began, commit = time.monotonic(), current_commit()
    done: list[Share] = []
    for share in run(given.states, given.seed):
        done.append(share)
        print(share, *share.found, sep="\n  ", flush=True)
    found = [each for share in done for each in share.found]
    tried = sum(share.outcome.states for share in done)
    outcome = f"{len(found)} violations"
    if not given.no_evidence:
        last = max(share.next_seed for share in done) - 1
        EVIDENCE.append(commit, f"{given.seed} to {last}", tried, f"{time.monotonic() - began:.0f}", outcome)
    print(f"{tried} states: {outcome}")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()

"""Seeds of the simulated quorum, one after the other: leaders, votes, voters, snapshots, and what was acknowledged.

    python -m tests.campaign.quorum --seeds 1000 --seed 101 --directory DIRECTORY

goes on from where an earlier run of the same commit in the same directory stopped, and appends a row to
docs/evidence/quorum.md. A seed that fails prints its command line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.evidence import EvidencePage, current_commit
from tests.simulation.many import Result, run_many
from tests.simulation.quorum import SECONDS

EVIDENCE = EvidencePage(
    "quorum.md",
    f"# Seeds of the simulated quorum\n\nWritten by `make campaign`. A seed is {SECONDS:.0f} virtual seconds of faults "
    "and writes,\nand the calm after them; what is looked at, docs/simulation.md tells.",
    "commit | seeds | seconds | operations | faults | leaders | acknowledged | outcome",
)
FIRST_SEED = 101
"""Below are those of `make test`."""


@dataclass(slots=True)
class Totals:
    """Of all seeds that are done."""

    seeds: list[int] = field(default_factory=list)
    seconds: float = 0.0
    operations: int = 0
    faults: int = 0
    leaders: int = 0
    acknowledged: int = 0
    failed: list[int] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.seeds.append(result.seed)
        if result.outcome is None:
            self.failed.append(result.seed)
            return
        self.operations += result.outcome.operations
        self.faults += result.outcome.faults
        self.leaders += result.outcome.elections
        self.acknowledged += len(result.outcome.acknowledged)

    @property
    def outcome(self) -> str:
        return f"{len(self.failed)} failures" + (f": {', '.join(map(str, self.failed))}" if self.failed else "")


class Campaign:
    """Its totals are kept in a file, so that it may be stopped at any time."""

    def __init__(self, directory: Path, commit: str) -> None:
        self._path = directory / f"quorum-{commit}.json"
        self.totals = Totals(**json.loads(self._path.read_text())) if self._path.exists() else Totals()

    def run(self, seeds: range) -> None:
        done = set(self.totals.seeds)
        last = time.monotonic()
        for result in run_many([seed for seed in seeds if seed not in done]):
            now = time.monotonic()
            self.totals.seconds, last = self.totals.seconds + now - last, now
            self.totals.add(result)
            self._save()
            if result.failure:
                print(f"seed {result.seed}:", result.failure, flush=True)

    def _save(self) -> None:
        content = {name: getattr(self.totals, name) for name in Totals.__slots__}
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content))
        temporary.replace(self._path)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=FIRST_SEED)
    arguments.add_argument("--directory", type=Path, help="what is done is kept here; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-quorum-"))
    directory.mkdir(parents=True, exist_ok=True)
    commit = current_commit()
    campaign = Campaign(directory, commit)
    campaign.run(range(given.seed, given.seed + given.seeds))
    totals = campaign.totals
    named = f"{min(totals.seeds)} to {max(totals.seeds)}"
    counts = (totals.operations, totals.faults, totals.leaders, totals.acknowledged)
    if not given.no_evidence:
        EVIDENCE.append(commit, named, f"{totals.seconds:.0f}", *counts, totals.outcome)
    print(f"{len(totals.seeds)} seeds: {totals.outcome}")
    raise SystemExit(bool(totals.failed))


if __name__ == "__main__":
    main()

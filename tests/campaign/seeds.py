"""Campaign with seeds of a simulated scenario, one after another; each result is recorded at once, so it can be
stopped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from tests.campaign.evidence import Evidence, current_commit
from tests.simulation.many import Result, Scenario, run_many


@dataclass(slots=True)
class Totals(ABC):
    """Totals over all completed seeds."""

    seeds: list[int] = field(default_factory=list)
    seconds: float = 0.0
    failed: list[int] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Add the result of a seed."""
        self.seeds.append(result.seed)
        if result.outcome is None:
            self.failed.append(result.seed)
        else:
            self.count(result.outcome)

    @abstractmethod
    def count(self, outcome: Any) -> None:
        """Add the outcome of a seed that succeeded."""

    @property
    @abstractmethod
    def cells(self) -> tuple[object, ...]:
        """Return the cells of the evidence between the seconds and the outcome."""

    @property
    def outcome(self) -> str:
        return f"{len(self.failed)} failures" + (f": {', '.join(map(str, sorted(self.failed)))}" if self.failed else "")

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def save(self, path: Path) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({each.name: getattr(self, each.name) for each in fields(self)}))
        temporary.replace(path)


def run_campaign(
    scenario: Scenario, kind: type[Totals], evidence: Evidence, *, text: str | None, seeds: int, first_seed: int
) -> None:
    """Run the seeds of the command line and append a row of evidence. Exits with 1 if a seed failed."""
    arguments = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=seeds)
    arguments.add_argument("--seed", type=int, default=first_seed)
    arguments.add_argument("--directory", type=Path, help="what is done is kept here; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix=f"kwire-{scenario}-"))
    directory.mkdir(parents=True, exist_ok=True)
    commit = current_commit()
    path = directory / f"{scenario}-{commit}.json"
    totals = kind.load(path)
    _run(scenario, totals, path, range(given.seed, given.seed + given.seeds))
    named = f"{min(totals.seeds)} to {max(totals.seeds)}"
    if not given.no_evidence:
        evidence.append(commit, named, f"{totals.seconds:.0f}", *totals.cells, totals.outcome)
    print(f"{len(totals.seeds)} seeds: {totals.outcome}")
    raise SystemExit(bool(totals.failed))


def _run(scenario: Scenario, totals: Totals, path: Path, seeds: range) -> None:
    done = set(totals.seeds)
    last = time.monotonic()
    for result in run_many(scenario, [seed for seed in seeds if seed not in done]):
        now = time.monotonic()
        totals.seconds, last = totals.seconds + now - last, now
        totals.add(result)
        totals.save(path)
        if result.failure:
            print(f"seed {result.seed}:", result.failure, flush=True)

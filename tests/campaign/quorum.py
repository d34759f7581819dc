"""Campaign with seeds of the simulated quorum: leaders, votes, voters, snapshots, and acknowledged records.

    python -m tests.campaign.quorum --seeds 1000 --seed 101 --directory DIRECTORY

continues an earlier run of the same commit in the same directory, and appends a row to docs/evidence/quorum.jsonl. For
a seed that fails, its command line is printed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.campaign.evidence import Evidence
from tests.campaign.seeds import Totals, run_campaign
from tests.simulation.quorum import Outcome

EVIDENCE = Evidence(
    name="quorum",
    title="Seeds of the simulated quorum",
    about="a seed is 60 virtual seconds of faults and writes, and the recovery after them (docs/simulation.md)",
    columns=("commit", "seeds", "seconds", "operations", "faults", "leaders", "acknowledged", "outcome"),
    counted="operations",
    sound=r"^0 failures",
)
FIRST_SEED = 101
"""First seed after those of `make test`."""


@dataclass(slots=True)
class QuorumTotals(Totals):
    """Totals over all completed seeds."""

    operations: int = 0
    faults: int = 0
    leaders: int = 0
    acknowledged: int = 0

    def count(self, outcome: Outcome) -> None:
        self.operations += outcome.operations
        self.faults += outcome.faults
        self.leaders += outcome.elections
        self.acknowledged += len(outcome.acknowledged)

    @property
    def cells(self) -> tuple[object, ...]:
        return self.operations, self.faults, self.leaders, self.acknowledged


if __name__ == "__main__":
    run_campaign("quorum", QuorumTotals, EVIDENCE, text=__doc__, seeds=1000, first_seed=FIRST_SEED)

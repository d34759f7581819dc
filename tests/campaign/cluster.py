"""Campaign with seeds of the simulated cluster: replicas, transactions, groups, and guarantees to clients.

    python -m tests.campaign.cluster --seeds 2000 --seed 101 --directory DIRECTORY

continues an earlier run of the same commit in the same directory, and appends a row to docs/evidence/cluster.jsonl. For
a seed that fails, its command line is printed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.campaign.evidence import Evidence
from tests.campaign.seeds import Totals, run_campaign
from tests.simulation.cluster import Outcome

EVIDENCE = Evidence(
    name="cluster",
    title="Seeds of the simulated cluster",
    about="a seed is 60 virtual seconds of faults and clients, and the recovery after them (docs/simulation.md)",
    columns=("commit", "seeds", "seconds", "operations", "faults", "records", "transactions", "promises", "outcome"),
    counted="operations",
    sound=r"^0 failures",
)
FIRST_SEED = 101
"""First seed after those of `make test`."""


@dataclass(slots=True)
class ClusterTotals(Totals):
    """Totals over all completed seeds."""

    operations: int = 0
    faults: int = 0
    records: int = 0
    transactions: int = 0
    promises: dict[str, int] = field(default_factory=dict)

    def count(self, outcome: Outcome) -> None:
        self.operations += outcome.operations
        self.faults += outcome.faults
        self.records += outcome.acknowledged + outcome.sends
        self.transactions += outcome.transactions
        self.promises = dict(Counter(self.promises) + Counter([outcome.promise]))

    @property
    def cells(self) -> tuple[object, ...]:
        promises = ", ".join(f"{name} {count}" for name, count in sorted(self.promises.items()))
        return self.operations, self.faults, self.records, self.transactions, promises


if __name__ == "__main__":
    run_campaign("cluster", ClusterTotals, EVIDENCE, text=__doc__, seeds=2000, first_seed=FIRST_SEED)

"""Campaign with clusters of brokers: kills, pauses, network cuts and lost disks, under standard clients with histories.

    python -m tests.campaign.brokers --runs 25 --seconds 120 --seed 1 --directory somewhere

A run is a new cluster of three or five processes, each in its own network namespace, with topics of three replicas and
min.insync.replicas=2. The clients in other namespaces are confluent-kafka, aiokafka, kafka-python, a client of plain
frames (KIP-890), and Kafka's own VerifiableProducer and VerifiableConsumer. The seed determines the faults
(tests/cluster_processes/broker_faults.py), one after another. If a fault leaves a quorum and enough replicas, every
partition must accept records within 30 s. After each fault, all replicas must be in sync within 30 s. At the end all
records are read once more and the history is checked (docs/histories.md); all replicas must be equal, byte for byte.

The scenarios of tests/cluster_processes/scenarios.py come first. Each run takes the next seed, and writes its row at
its end; in the same directory, an interrupted campaign continues. The command needs root. `--kind kafka` runs the same
on Apache Kafka 4.3.1, for comparison.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.harness.reference import class_path
from tests.campaign import ext4
from tests.campaign.evidence import Evidence, current_commit
from tests.campaign.histories import said
from tests.cluster_processes import network
from tests.cluster_processes.broker_cluster import VERIFIED, BrokerCluster, BrokerShape, Figures, running_brokers
from tests.cluster_processes.broker_faults import FAULTS, Fault, possible
from tests.cluster_processes.same_logs import compare_replicas
from tests.cluster_processes.scenarios import SCENARIOS, play
from tests.cluster_processes.workload import Workload
from tests.history import final
from tests.history.checker import Report, check
from tests.history.clients.common import COPIES, PARTITIONS, TOPIC
from tests.history.journal import Journal
from tests.history.operations import read

EVIDENCE = Evidence(
    name="brokers",
    title="Brokers through kills, pauses, cuts, lost disks and lost power",
    about="progress: seconds from a fault that left a quorum and enough replicas until every partition acknowledged "
    "what was sent since; recovery: seconds from the end of a fault until all replicas were in sync again; "
    "median / maximum",
    columns=(
        "commit",
        "cluster",
        "seed",
        "seconds",
        "operations",
        "verifiable",
        "faults",
        "progress",
        "recovery",
        "outcome",
    ),
    counted="operations",
    sound=r"^nothing",
)
HELD_SECONDS = (0.5, 5.0)
"""Duration of a fault after the cluster has recovered its progress."""
CLIENT_CRASHES = 0.3
"""Probability that a client is killed in addition to a fault."""
WELL_SECONDS = (0.5, 3.0)
SETTLE_SECONDS = 6.0


@dataclass(slots=True, kw_only=True)
class Run:
    """Single run: a cluster and its results."""

    seed: int
    shape: BrokerShape
    seconds: float
    faults: Sequence[Fault] = ()
    """Faults in this order; by default they are drawn until the time is over."""
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unruly: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    verified: int = 0
    access: Counter[bool] = field(default_factory=Counter)
    """Number of requests that access control let through, and that it refused."""
    report: Report | None = None

    def live(self, directory: Path) -> None:
        """Run until the time is over or a problem is found."""
        directory.mkdir(parents=True)
        random_source = random.Random(self.seed)
        journal = Journal(directory / "run.jsonl")
        with running_brokers(self.shape, directory, random_source, journal) as cluster:
            self.figures = cluster.figures
            workload = Workload(cluster, directory, self.seed)
            try:
                workload.await_beginning()
                self._torment(cluster, workload, random_source)
                journal.note("nemesis", "healed")
                _wait(SETTLE_SECONDS)  # the history includes the clients' operations in this time
                workload.finish()
            except AssertionError as error:
                self.problems.append(str(error))
            finally:
                workload.abandon()
            cluster.finish()
            self.problems += cluster.problems
            self.access = workload.access.checked if workload.access is not None else Counter()
            self.unruly, self.verified = workload.unruly, len(workload.verified.acknowledged)
            if not self.problems:  # if there were problems, the run may have stopped anywhere
                data = {node_id: node.data for node_id, node in cluster.nodes.items()}
                self.problems += compare_replicas(data, (TOPIC, COPIES, VERIFIED), PARTITIONS)
        journal.close()
        self.report = check(read(*final.journals(directory)))
        self.problems += map(str, self.report.bad)

    def _torment(self, cluster: BrokerCluster, workload: Workload, random_source: random.Random) -> None:
        until, planned = time.monotonic() + self.seconds, list(self.faults)
        while not cluster.problems and (planned or (not self.faults and time.monotonic() < until)):
            fault = planned.pop(0) if planned else random_source.choice(possible(self.shape))
            name = fault.__name__.replace("_", " ")
            self.done.append(name)
            fault(cluster, random_source)
            _wait(random_source.uniform(*HELD_SECONDS))
            if random_source.random() < CLIENT_CRASHES:
                workload.crash_a_client(random_source)
            cluster.heal(name)
            _wait(random_source.uniform(*WELL_SECONDS))

    @property
    def operations(self) -> int:
        return sum(self.report.operations.values()) if self.report is not None else 0

    def cells(self) -> tuple[object, ...]:
        """Return the cells of the row after the commit."""
        faults = ", ".join(f"{name} {count}" for name, count in sorted(Counter(self.done).items()))
        faults += f"; did not stop: {', '.join(self.unruly)}" if self.unruly else ""
        faults += f"; access: {self.access[True]} allowed, {self.access[False]} denied" if self.access else ""
        outcome = said(self.report) if self.report is not None else "not judged"
        others = [problem for problem in self.problems if "(bad)" not in problem]
        outcome = "; ".join([outcome, *others[:3]])
        progress, recovery = summary(self.figures.progress), summary(self.figures.recovery)
        seconds = f"{self.seconds:.0f}"
        return self.shape, self.seed, seconds, self.operations, self.verified, faults, progress, recovery, outcome


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)  # the seed determines the times of faults


def summary(seconds: Sequence[float]) -> str:
    """Return the median and the maximum."""
    return f"{statistics.median(seconds):.1f} / {max(seconds):.1f} s" if seconds else "none"


def drawn(seed: int, seconds: float, *, kind: str, has_disks: bool, is_secured: bool = False) -> Run:
    """Return a run whose shape follows from the seed."""
    is_large = seed % 5 == 0
    shape = BrokerShape(
        kind=kind,
        brokers=5 if is_large else 3,
        has_disks=has_disks and seed % 2 == 0,
        is_durable=seed % 4 == 0,
        has_wires=seed % 3 == 0 and not is_secured,  # a proxy cannot read requests over TLS
        is_secured=is_secured,
    )
    return Run(seed=seed, shape=shape, seconds=seconds)


class Campaign:
    """All runs of one command. Completed ones are recorded in the directory; interrupted ones are repeated."""

    def __init__(self, directory: Path, kind: str, *, with_evidence: bool) -> None:
        self._directory = directory
        self._kind = kind
        self._noted = directory / "done.txt"
        self._done = set(self._noted.read_text().splitlines()) if self._noted.exists() else set()
        self._with_evidence = with_evidence
        self.failures: list[str] = []

    def play(self, name: str) -> None:
        """Run a scenario of tests/cluster_processes/scenarios.py."""
        if (place := self._begin(name)) is None:
            return
        commit, began = current_commit(), time.monotonic()
        problem = play(name, self._kind, place)
        self._end(name, place, [problem] if problem else [])
        seconds = f"{time.monotonic() - began:.0f}"
        self._tell(commit, self._kind, name.replace("_", " "), seconds, "", "", "", "", "", problem or "nothing")

    def live(self, run: Run) -> None:
        name = f"secured-{run.seed}" if run.shape.is_secured else str(run.seed)
        if (place := self._begin(name)) is None:
            return
        commit = current_commit()
        run.live(place)
        self._end(name, place, run.problems)
        self._tell(commit, *run.cells())

    def _begin(self, name: str) -> Path | None:
        place = self._directory / f"{self._kind}-{name}"
        shutil.rmtree(place, ignore_errors=True)
        return None if f"{self._kind} {name}" in self._done else place

    def _end(self, name: str, place: Path, problems: Sequence[str]) -> None:
        if problems:
            self.failures.append(f"{name}, kept in {place}: {'; '.join(problems[:10])}")
            print(self.failures[-1], flush=True)
        else:
            shutil.rmtree(place)
        with self._noted.open("a") as file:
            file.write(f"{self._kind} {name}\n")

    def _tell(self, *cells: object) -> None:
        print(*cells, sep=" | ", flush=True)
        if self._with_evidence:
            EVIDENCE.append(*cells)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=25)
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--kind", choices=("kwire", "kafka"), default="kwire")
    arguments.add_argument("--faults", nargs="*", choices=sorted(FAULTS), help="these, in this order, in every run")
    arguments.add_argument("--secured", action="store_true", help="SASL over TLS between the nodes, and an authorizer")
    arguments.add_argument("--directory", type=Path, help="where runs are kept; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    if (reason := network.why_not()) is not None:
        raise SystemExit(f"brokers cannot be cut off here: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # no process is left running, no disk mounted
    class_path()  # Kafka's own clients
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-brokers-"))
    directory.mkdir(parents=True, exist_ok=True)
    no_disks = ext4.why_not(directory / "try")
    if no_disks is not None:
        print(f"without disks: {no_disks}")
    campaign = Campaign(directory, given.kind, with_evidence=not given.no_evidence)
    if no_disks is None and given.faults is None and not given.secured:
        for name in SCENARIOS:
            campaign.play(name)
    for seed in range(given.seed, given.seed + given.runs):
        run = drawn(seed, given.seconds, kind=given.kind, has_disks=no_disks is None, is_secured=given.secured)
        run.faults = [FAULTS[name] for name in given.faults or ()]
        campaign.live(run)
    print(f"{len(campaign.failures)} with something bad", *campaign.failures, sep="\n  ")
    raise SystemExit(bool(campaign.failures))


if __name__ == "__main__":
    main()

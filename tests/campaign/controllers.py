"""Campaign with real controllers: network cuts and power cuts must not lose metadata or give an epoch two leaders.

    python -m tests.campaign.controllers --runs 20 --seed 1

A run is a new quorum of three or five processes, each in its own network namespace and on its own file system.
Snapshots are on or off. The quorum is formed by `kwire format --initial-controllers` or by controller.quorum.voters.
Two clients write metadata through the current leader. The seed determines the faults
(tests/cluster_processes/faults.py), one after another. If a fault removes the leader and leaves a majority, there must
be a new leader within five seconds. At the end all logs and all images must be equal and contain all acknowledged
records. The command needs root.
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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign import ext4
from tests.campaign.evidence import Evidence, current_commit
from tests.cluster_processes import network
from tests.cluster_processes.faults import Fault, possible
from tests.cluster_processes.quorum import Figures, Shape, running_quorum

EVIDENCE = Evidence(
    name="controllers",
    title="Controllers through kills, pauses, cuts, lost disks and lost power",
    about="seconds to a new leader, and to the next write that is acknowledged, from each fault that took the "
    "leader away and left a majority; median / maximum",
    columns=("commit", "seeds", "faults", "seconds", "new leader", "next write", "outcome"),
    counted="faults",
    sound=r"none lost, one leader an epoch, all images equal",
)
FAULTS_A_RUN = 6
HELD_SECONDS = (0.1, 1.5)
"""Duration of a fault after the quorum has recovered."""
WELL_SECONDS = (0.2, 0.8)


@dataclass(slots=True, kw_only=True)
class Run:
    """Single run: a quorum and its results."""

    seed: int
    shape: Shape
    faults: Sequence[Fault] = ()
    """Faults of the run; by default the seed determines them."""
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0
    epochs: int = 0
    figures: Figures = field(default_factory=Figures)

    def live(self, scratch: Path) -> None:
        """Run until all faults are done or a problem is found."""
        random_source = random.Random(self.seed)
        faults = self.faults or random_source.choices(possible(self.shape), k=FAULTS_A_RUN)
        with running_quorum(self.shape, scratch, random_source) as quorum:
            self.figures = quorum.figures
            try:
                for fault in faults:
                    name = fault.__name__.replace("_", " ")
                    self.done.append(name)
                    fault(quorum, random_source)
                    _wait(random_source.uniform(*HELD_SECONDS))
                    quorum.heal(name)
                    _wait(random_source.uniform(*WELL_SECONDS))
                    if quorum.problems:
                        break
                quorum.finish()
            except AssertionError as error:
                self.problems.append(str(error))
            self.problems += quorum.problems
            self.acknowledged, self.epochs = len(quorum.ledger.acknowledged), len(quorum.watch.leaders)

    def __str__(self) -> str:
        leaders = " ".join(f"{seconds:.1f}" for seconds in self.figures.new_leader)
        lines = [
            f"seed {self.seed}, {self.shape}: {', '.join(self.done)}",
            f"{self.acknowledged} acknowledged, {self.epochs} leaders seen; new ones after {leaders} s",
            *self.problems[:10],
        ]
        return "\n  ".join(lines)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)  # the seed determines the times of faults


def drawn(seed: int, *, has_disks: bool) -> Run:
    """Return a run whose shape follows from the seed."""
    shape = Shape(
        voters=5 if seed % 2 else 3, is_static=seed % 4 >= 2, has_snapshots=seed % 3 == 0, has_disks=has_disks
    )
    return Run(seed=seed, shape=shape)


def outcome(runs: Sequence[Run]) -> str:
    acknowledged, epochs = sum(run.acknowledged for run in runs), sum(run.epochs for run in runs)
    found = [f"seed {run.seed}: {problem}" for run in runs for problem in run.problems]
    said = f"{acknowledged} writes acknowledged in {epochs} epochs"
    return "; ".join([said, *found[:3]] if found else [said, "none lost, one leader an epoch, all images equal"])


def summary(seconds: Sequence[float]) -> str:
    """Return the median and the maximum."""
    return f"{statistics.median(seconds):.1f} / {max(seconds):.1f} s" if seconds else "none"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--keep", action="store_true", help="leave the directories of runs that failed")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    if (reason := network.why_not()) is not None:
        raise SystemExit(f"controllers cannot be cut off here: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # no process is left running, no disk mounted
    scratch = Path(tempfile.mkdtemp(prefix="kwire-controllers-"))
    commit, began = current_commit(), time.monotonic()
    if (reason := ext4.why_not(scratch / "try")) is not None:
        print(f"without power cuts: {reason}")
    runs: list[Run] = []
    for seed in range(given.seed, given.seed + given.runs):
        run = drawn(seed, has_disks=reason is None)
        runs.append(run)
        run.live(scratch / str(seed))
        print(run, flush=True)
        if not (run.problems and given.keep):
            shutil.rmtree(scratch / str(seed))
    with suppress(OSError):  # preserved data stays
        scratch.rmdir()
    print(outcome(runs))
    if not given.no_evidence:
        EVIDENCE.append(
            commit,
            f"{given.seed} to {given.seed + given.runs - 1}",
            sum(len(run.done) for run in runs),
            f"{time.monotonic() - began:.0f}",
            summary([seconds for run in runs for seconds in run.figures.new_leader]),
            summary([seconds for run in runs for seconds in run.figures.next_write]),
            outcome(runs),
        )
    raise SystemExit(any(run.problems for run in runs))


if __name__ == "__main__":
    main()

"""Campaign with histories of transactional clients under faults, each checked by tests/history.

    python -m tests.campaign.histories --runs 30 --seconds 60 --seed 1 --directory somewhere

Each run takes the next seed, and adds a line to docs/evidence/histories.jsonl at its end. Completed runs are recorded
in the directory, so that an interrupted campaign continues there. Before the runs, a delayed EndTxn is tested with both
protocols, and on Apache Kafka too if there is Java: the checker must find the known anomaly with v1, and none with v2.
Journals of runs with an anomaly are kept.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.campaign.evidence import Evidence, current_commit
from tests.history.checker import Report
from tests.history.findings import ALLOWED, BAD, KNOWN
from tests.history.held_end import play
from tests.history.run import run, stop_in_order

EVIDENCE = Evidence(
    name="histories",
    title="Histories of transactions",
    about="held v1, held v2: an EndTxn is held back until the producer's next transaction, with that protocol; "
    "known of v1: anomalies that the classic protocol allows (docs/histories.md)",
    columns=("commit", "broker", "seed", "seconds", "operations", "faults", "outcome"),
    counted="operations",
    sound=r"^nothing|^(\d+ [a-z ]+ \(known of v1\)(, )?)+;",
)


def said(report: Report) -> str:
    """Return the findings, except those that Kafka's model allows."""
    counts = [
        f"{count} {name}{' (known of v1)' if verdict == KNOWN else ''}"
        for verdict in (BAD, KNOWN)
        for name, count in sorted(Counter(finding.name for finding in report.of(verdict)).items())
    ]
    lag = next((finding.text for finding in report.findings if finding.name == "realtime lag"), "")
    return f"{', '.join(counts) or 'nothing'}; lag {lag}; {len(report.of(ALLOWED))} allowed"


class Campaign:
    """All runs of one command."""

    def __init__(self, directory: Path, *, with_evidence: bool) -> None:
        self._directory = directory
        self._noted = directory / "done.txt"
        self._done = set(self._noted.read_text().splitlines()) if self._noted.exists() else set()
        self._with_evidence = with_evidence
        self.failures: list[str] = []

    def _is_done(self, broker: str, seed: int | str) -> bool:
        return f"{broker} {seed}" in self._done

    def _new(self, name: str) -> Path:
        """Return a directory that does not exist yet; the remains of an interrupted run are removed."""
        directory = self._directory / name
        shutil.rmtree(directory, ignore_errors=True)
        return directory

    def held(self, broker: str, protocol: str) -> None:
        """Check the checker itself: v1 shows the anomaly, v2 does not."""
        if self._is_done(broker, f"held {protocol}"):
            return
        commit, began = current_commit(), time.monotonic()
        directory = self._new(f"held-{broker}-{protocol}")
        report = play(broker, protocol, directory)
        if bool(report.of(KNOWN)) != (protocol == "v1") or report.bad:
            self.failures.append(f"held {protocol} on {broker}: {said(report)}; kept in {directory}")
        else:
            shutil.rmtree(directory)
        self._note(commit, broker, f"held {protocol}", time.monotonic() - began, report, "hold 2")

    def torment(self, broker: str, seed: int, seconds: float) -> None:
        if self._is_done(broker, seed):
            return
        commit, directory = current_commit(), self._new(f"{broker}-{seed}")
        result = run(broker, seconds, seed, directory)
        if result.report.bad:
            self.failures.append(f"seed {seed} on {broker}: {said(result.report)}; kept in {directory}")
        else:
            shutil.rmtree(directory)
        faults = ", ".join(f"{name} {count}" for name, count in sorted(result.faults.items()))
        faults += f"; did not stop: {', '.join(result.unruly)}" if result.unruly else ""
        self._note(commit, broker, seed, seconds, result.report, faults)

    def _note(self, commit: str, broker: str, seed: int | str, seconds: float, report: Report, faults: str) -> None:
        cells = (commit, broker, seed, f"{seconds:.0f}", sum(report.operations.values()), faults, said(report))
        with self._noted.open("a") as file:
            file.write(f"{broker} {seed}\n")
        print(*cells, sep=" | ", flush=True)
        if self._with_evidence:
            EVIDENCE.append(*cells)


def main() -> None:
    stop_in_order()
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=30)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    arguments.add_argument("--directory", type=Path, help="where runs are kept; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-histories-"))
    directory.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(directory, with_evidence=not given.no_evidence)
    for broker in ["kwire", "kafka"] if shutil.which("java") else ["kwire"]:
        for protocol in ("v1", "v2"):
            campaign.held(broker, protocol)
    for seed in range(given.seed, given.seed + given.runs):
        campaign.torment(given.broker, seed, given.seconds)
    print(f"{len(campaign.failures)} with something bad", *campaign.failures, sep="\n  ")
    raise SystemExit(bool(campaign.failures))


if __name__ == "__main__":
    main()

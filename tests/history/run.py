"""Run of a history: a broker, its clients and faults; then the check.

    python -m tests.history.run --broker kwire --seconds 60 --seed 7

All files are kept in a directory if an anomaly was found, or with --keep. The command needs confluent-kafka, and for
--broker kafka the requirements of `make compat`.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.history import final
from tests.history.checker import Report, check
from tests.history.cluster import KINDS, Cluster
from tests.history.journal import Journal
from tests.history.nemesis import FAULTS, Nemesis
from tests.history.operations import read
from tests.history.processes import Client, clients

SETTLE_SECONDS = 6.0
"""Time for which clients continue after all faults."""


@dataclass(slots=True)
class Result:
    report: Report
    faults: Counter[str]
    directory: Path
    unruly: list[str]
    """Clients that did not stop on request."""


def run(broker: str, seconds: float, seed: int, directory: Path, faults: set[str] | None = None) -> Result:
    """Run all steps; create the directory."""
    directory.mkdir(parents=True)
    journal = Journal(directory / "run.jsonl")
    cluster = Cluster(broker, directory / "broker", journal)
    started = clients(directory, cluster.bootstrap_server, seed)
    nemesis = Nemesis(cluster, started, journal, seed, set(FAULTS) if faults is None else faults)
    try:
        cluster.start()
        for client in started:
            client.start()
        nemesis.torment(seconds)
        journal.note("nemesis", "healed")
        time.sleep(SETTLE_SECONDS)  # the history includes the clients' operations in this time
        unruly = _end(started, cluster, journal)
    finally:
        for client in started:
            client.kill()
        cluster.close()
        journal.close()
    return Result(check(read(*final.journals(directory))), Counter(nemesis.done), directory, unruly)


def _end(started: list[Client], cluster: Cluster, journal: Journal) -> list[str]:
    """Stop writers first; then, once all transactions are decided, readers; then do the final reads."""
    writers = [client for client in started if client.kind.is_writer]
    readers = [client for client in started if not client.kind.is_writer]
    unruly = _stop(writers)
    final.settle(cluster.direct, journal)
    time.sleep(1)  # so that readers reach the end
    unruly += _stop(readers)
    final.read_all(cluster.bootstrap_server, journal)
    return unruly


def _stop(some: list[Client]) -> list[str]:
    for client in some:
        client.ask_to_stop()
    return [client.id for client in some if not client.wait()]


def stop_in_order() -> None:
    """Make SIGTERM end this program by an exception, so that it leaves no process behind."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def main() -> None:
    stop_in_order()
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--broker", choices=sorted(KINDS), default="kwire")
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--faults", nargs="*", choices=sorted(set(FAULTS)), help="by default all of them")
    arguments.add_argument("--directory", type=Path, help="where to keep everything; it must not be there yet")
    arguments.add_argument("--keep", action="store_true")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-history-")) / "run"
    faults = None if given.faults is None else set(given.faults)
    result = run(given.broker, given.seconds, given.seed, directory, faults)
    print(result.report, f"faults: {dict(result.faults)}, not stopped in order: {result.unruly}", sep="\n")
    if result.report.bad or given.keep or given.directory:
        print(f"kept in {directory}; judge it again by: python -m tests.history.checker {directory}/*.jsonl")
    else:
        shutil.rmtree(directory)
    raise SystemExit(bool(result.report.bad))


if __name__ == "__main__":
    main()

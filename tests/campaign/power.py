"""Campaign with power cuts of a loaded broker: no acknowledged record may be lost or duplicated.

    python -m tests.campaign.power --cuts 300 --unflushed 60 --seed 1

The broker's log directory is an ext4 file system in a file (tests/campaign/ext4.py). A life is a new file system with
up to twenty power cuts: under load, during a start, or during a stop. Each is followed by a journal replay, a start,
and a comparison with the acknowledged records. A life ends with a clean stop and `kwire log verify`. With
flush.messages=1, all acknowledged records must exist. Without it (Kafka's default), only the end of each partition may
be lost.

Each life takes the next seed; a run continues after the seeds of the previous row in docs/evidence/power.jsonl. The
command needs root.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.campaign.evidence import Evidence, current_commit
from tests.campaign.ext4 import FileSystem, file_system, why_not
from tests.campaign.power_load import (
    GROUP,
    KEPT,
    PLACES,
    SHORT,
    CommitLedger,
    Ledger,
    Load,
    PartitionLedger,
    TopicLedger,
)
from tests.support.processes import SECONDS, ServerProcess, command, overrides
from tests.support.raw_client import RawClient
from tests.support.requests import create_request

EVIDENCE = Evidence(
    name="power",
    title="Power cuts under load",
    about="without a flush for each batch the end of a partition may be lost",
    columns=("commit", "seeds", "cuts", "seconds", "outcome"),
    counted="cuts",
    sound=r"no violation$",
)
CUTS_A_LIFE = 20
MOUNTS = ("", "data=writeback", "noauto_da_alloc", "data=writeback,noauto_da_alloc", "data=journal")
LOAD_SECONDS = (0.0, 0.5)
START_SECONDS = (0.0, 0.6)
STOP_SECONDS = (0.0, 0.15)
NEVER = 2**63 - 1


@dataclass(slots=True, kw_only=True)
class Life:
    """File system with power cuts, and the results of its broker."""

    seed: int
    cuts: int
    is_durable: bool
    problems: list[str] = field(default_factory=list)
    records: int = 0
    lost: int = 0
    done: int = 0

    @property
    def mount_options(self) -> str:
        return MOUNTS[self.seed % len(MOUNTS)]

    def live(self, scratch: Path) -> None:
        """Run until all power cuts are done or a problem is found."""
        random_source = random.Random(self.seed)
        with file_system(scratch, self.mount_options) as disk:
            partitions = [
                PartitionLedger(
                    topic=topic,
                    partition=number,
                    random_source=random.Random(random_source.random()),
                    problems=self.problems,
                )
                for topic, number in PLACES
            ]
            ledgers: list[Ledger] = [
                *partitions,
                CommitLedger(problems=self.problems),
                TopicLedger(random_source=random.Random(random_source.random()), problems=self.problems),
            ]
            self._begin(disk)
            while self.done < self.cuts and not self.problems:
                self._cut_once(disk, ledgers, random_source)
                self.done += 1
            if not self.problems:
                self._end(disk, ledgers)
        self.records = sum(len(ledger.acknowledged) for ledger in partitions)
        self.lost = sum(ledger.lost for ledger in partitions)

    def _settings(self, disk: FileSystem) -> dict[str, str]:
        return {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log_dirs": str(disk.directory / "data"),
            "log_flush_interval_messages": "1" if self.is_durable else str(NEVER),
            "log_retention_check_interval_ms": "150",
            "log_segment_delete_delay_ms": "100",
            "offsets_topic_num_partitions": "2",
            "log_flush_offset_checkpoint_interval_ms": "200",
            "log_flush_start_offset_checkpoint_interval_ms": "200",
        }

    @contextmanager
    def _process(self, disk: FileSystem) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            command(*overrides(**self._settings(disk))), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(SECONDS)
            assert process.stdout is not None
            process.stdout.close()

    @contextmanager
    def _broker(self, disk: FileSystem) -> Iterator[ServerProcess]:
        with self._process(disk) as process:
            yield ServerProcess(process)

    def _begin(self, disk: FileSystem) -> None:
        settings = {"segment_ms": 400, "index_interval_bytes": 1000}
        with self._broker(disk) as broker, RawClient(broker.bootstrap_server) as client:
            client.ask(create_request(KEPT, 2, **settings), 7)
            client.ask(create_request(SHORT, 1, **settings, retention_bytes=100_000), 7)
            client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4)  # creates __consumer_offsets

    def _cut_once(self, disk: FileSystem, ledgers: list[Ledger], random_source: random.Random) -> None:
        how = random_source.choices(("load", "start", "stop"), (6, 2, 1))[0]
        if how == "start":
            with self._process(disk):
                time.sleep(random_source.uniform(*START_SECONDS))
                disk.cut()
        else:
            with self._broker(disk) as broker:
                load = Load(broker.bootstrap_server, ledgers, lambda error: self.problems.append(repr(error)))
                time.sleep(random_source.uniform(*LOAD_SECONDS))
                if how == "stop":
                    broker.process.send_signal(signal.SIGTERM)
                    time.sleep(random_source.uniform(*STOP_SECONDS))
                disk.cut()
                broker.process.kill()
                load.finish()
        disk.unmount()
        disk.mount()
        self._check(disk, ledgers, f"cut {self.done + 1} of seed {self.seed}, during {how}")

    def _check(self, disk: FileSystem, ledgers: list[Ledger], when: str) -> None:
        try:
            with self._broker(disk) as broker, RawClient(broker.bootstrap_server) as client:
                for ledger in ledgers:
                    ledger.check(client, is_durable=self.is_durable)
        except AssertionError as error:
            self.problems.append(str(error))
        self.problems[:] = [problem if "cut " in problem else f"{when}: {problem}" for problem in self.problems]

    def _end(self, disk: FileSystem, ledgers: list[Ledger]) -> None:
        """Check that a clean stop leaves a sound directory with all data."""
        with self._broker(disk) as broker:
            load = Load(broker.bootstrap_server, ledgers, lambda error: self.problems.append(repr(error)))
            time.sleep(0.2)
            load.finish()
            if broker.signal_and_wait(signal.SIGTERM) != 0:
                self.problems.append(f"the clean stop failed: {broker.rest()}")
        verify = [sys.executable, "-m", "kwire", "log", "verify", str(disk.directory / "data")]
        ended = subprocess.run(verify, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            wrong = [line for line in ended.stdout.splitlines() if line.startswith("wrong")] or [ended.stderr]
            self.problems.append(f"seed {self.seed}: not sound at the end: {'; '.join(wrong)}")
        self._check(disk, ledgers, f"after the clean stop of seed {self.seed}")


def lives(cuts: int, unflushed: int, seed: int) -> Iterator[Life]:
    """Yield as many lives as the power cuts need, each with the next seed."""
    for is_durable, left in ((True, cuts), (False, unflushed)):
        for first in range(0, left, CUTS_A_LIFE):
            yield Life(seed=seed, cuts=min(CUTS_A_LIFE, left - first), is_durable=is_durable)
            seed += 1


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cuts", type=int, default=300, help="with flush.messages=1")
    arguments.add_argument("--unflushed", type=int, help="without; by default a fifth as many")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    unflushed = given.cuts // 5 if given.unflushed is None else given.unflushed
    scratch = Path(tempfile.mkdtemp(prefix="kwire-power-"))
    commit, began = current_commit(), time.monotonic()
    done: list[Life] = []
    try:
        if (reason := why_not(scratch / "try")) is not None:
            raise SystemExit(f"power cannot be cut here: {reason}")
        for life in lives(given.cuts, unflushed, given.seed):
            done.append(life)
            directory = scratch / str(life.seed)
            directory.mkdir()
            life.live(directory)
            flushed = "flushed" if life.is_durable else "unflushed"
            said = f"seed {life.seed}, {flushed}, {life.mount_options or 'default'}: {life.done} cuts"
            print(said, f"{life.records} records, {life.lost} lost", *life.problems, sep="\n  ", flush=True)
    finally:
        if not any(scratch.glob("*/mounted/*")):
            _remove(scratch)
    outcome = _outcome(done)
    print(outcome)
    if not given.no_evidence:
        seeds = f"{given.seed} to {given.seed + len(done) - 1}"
        EVIDENCE.append(commit, seeds, sum(life.done for life in done), f"{time.monotonic() - began:.0f}", outcome)
    raise SystemExit(any(life.problems for life in done))


def _remove(scratch: Path) -> None:
    for path in sorted(scratch.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    scratch.rmdir()


def _outcome(done: list[Life]) -> str:
    parts = []
    for is_durable, name in ((True, "flushed"), (False, "not flushed")):
        these = [life for life in done if life.is_durable is is_durable]
        cuts, records = sum(life.done for life in these), sum(life.records for life in these)
        if these:
            lost = sum(life.lost for life in these)
            parts.append(f"{name}: {cuts} cuts, {records} records acknowledged, {lost} of them lost")
    found = [problem for life in done for problem in life.problems]
    return "; ".join([*parts, *found[:3]] if found else [*parts, "no violation"])


if __name__ == "__main__":
    main()

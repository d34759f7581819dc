"""Nodes of a soak test as processes, and samples of their memory, descriptors, threads and objects."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kwire.own_processes import command_of, environment
from tests.support.running_cluster import started

STOP_SECONDS = 60
SETTINGS = {
    "log.segment.bytes": 1 << 20,
    "log.retention.bytes": 2 << 20,
    "log.retention.check.interval.ms": 5000,
    "log.cleaner.backoff.ms": 5000,
    "log.segment.delete.delay.ms": 1000,
    "auto.create.topics.enable": "false",
    "log.roll.ms": 120_000,
    "offsets.topic.segment.bytes": 1 << 20,
    "transaction.state.log.segment.bytes": 1 << 20,
    "metadata.log.max.record.bytes.between.snapshots": 1 << 18,
    "producer.id.expiration.ms": 60_000,
    "producer.id.expiration.check.interval.ms": 10_000,
}
"""Settings with short lifetimes, so that data stops to grow within ten minutes. A producer's late metadata request must
not create a deleted topic again.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources of one process."""

    resident_bytes: int
    descriptors: int
    threads: int
    objects: int


class Nodes:
    """Three brokers that are also controllers."""

    def __init__(self, directory: Path, *, leak: str = "") -> None:
        self._directory = directory
        self._samples = directory / "samples"
        customized = directory / "customized"
        for each in (self._samples, customized):
            each.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("sampled.py"), customized / "sitecustomize.py")
        self._environment = environment()
        self._environment["PYTHONPATH"] += f"{os.pathsep}{customized}"
        self._environment |= {"SOAK_SAMPLES": str(self._samples), "SOAK_LEAK": leak}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        overrides = [part for name, value in SETTINGS.items() for part in ("--override", f"{name}={value}")]
        with started(directory / "cluster", *overrides) as formed:
            self.bootstrap = ",".join(formed.addresses)
            assert formed.end(signal.SIGTERM) == 0
        self._overrides = overrides

    def start(self, number: int) -> None:
        properties = self._directory / "cluster" / f"broker-{number}.properties"
        with (self._directory / f"broker-{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                command_of("kwire", "server", *self._overrides, str(properties)),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment,
            )

    def stop(self, number: int) -> None:
        """Stop a node cleanly. Raises AssertionError if its exit status is not 0."""
        process = self._processes.pop(number)
        process.terminate()
        status = process.wait(STOP_SECONDS)
        assert status == 0, f"broker {number} ended with status {status}"

    def check(self) -> None:
        """Raises AssertionError if a node has ended by itself."""
        for number, process in self._processes.items():
            assert process.poll() is None, f"broker {number} ended by itself with status {process.returncode}"

    def sample(self, number: int) -> Sample | None:
        """Return a sample; None until the process has counted its objects."""
        pid = self._processes[number].pid
        written = self._samples / f"{pid}.json"
        if not written.exists():
            return None
        counted = json.loads(written.read_text())
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return Sample(
            resident_bytes=counted["resident_bytes"],
            descriptors=len(list((process / "fd").iterdir())),
            threads=int(status["Threads"]),
            objects=counted["objects"],
        )

    def types(self, number: int) -> dict[str, int]:
        """Return the most frequent types of objects by name."""
        counted = json.loads((self._samples / f"{self._processes[number].pid}.json").read_text())
        return dict(counted["types"])

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

"""Spark driver in a process group of its own, as the campaign sees it: it calls the driver, or kills parts of it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from compat_tests.harness.paths import ROOT
from spark_jobs.faults.job import Job

START_SECONDS = 240
END_SECONDS = 30
LOCAL = "local[2,4]"
"""Two threads; a task is tried four times, as on a cluster."""
CLUSTER = "local-cluster[2,1,1024]"
"""Two executors, each a JVM of its own."""


class DriverKilledError(Exception):
    """The driver ended before it answered."""


class Driver:
    """Running driver."""

    def __init__(self, directory: Path, *, has_executors: bool, plant: str | None = None, jars: str = "") -> None:
        """Start a process. `jars` are those of an earlier driver, so that Spark need not resolve them again."""
        self.has_executors = has_executors
        directory.mkdir(parents=True, exist_ok=True)
        self.output = directory / "driver.txt"
        environment = {**os.environ, "SPARK_MASTER": CLUSTER if has_executors else LOCAL}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment["PYSPARK_PYTHON"] = sys.executable
        environment["SPARK_LOCAL_DIRS"] = str(emptied(directory / "local"))
        own, other = socket.socketpair()
        with other, self.output.open("ab") as output:
            command = [sys.executable, "-m", "spark_jobs.faults.worker", str(other.fileno())]
            self._process = subprocess.Popen(
                [*command, "--jars", jars, *(["--plant", plant] if plant else [])],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        self._connection = Connection(own.detach())
        self._jars = ""

    def await_start(self) -> str:
        """Wait until it takes calls; return its jars. Raises AssertionError if it does not start."""
        if not self._jars:
            try:
                self._jars = self._connection.recv() if self._connection.poll(START_SECONDS) else ""
            except (EOFError, OSError) as error:
                raise AssertionError(f"the driver ended; see {self.output}") from error
        if not self._jars:
            self.kill()
            raise AssertionError(f"the driver did not start within {START_SECONDS} s; see {self.output}")
        return self._jars

    def run(self, job: Job) -> list[str]:
        """Run the queries; return their failures. Raises DriverKilledError."""
        return list(self._call("run", job))

    def rows(self, job: Job) -> dict[str, list[Any]]:
        """Return the rows of the tables. Raises DriverKilledError."""
        return dict(self._call("rows", job))

    def _call(self, name: str, job: Job) -> Any:
        try:
            self._connection.send((name, job))
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise DriverKilledError from error

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> bool:
        """Kill the driver, Python and JVM, with kill -9; return False if it has ended."""
        if not self.is_alive:
            return False
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return True

    def await_end(self) -> None:
        """Wait for the end of a killed process."""
        self._process.wait(END_SECONDS)

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill_python_worker(self, random_source: Random) -> bool:
        """Kill a Python process that runs tasks; return False if there is none."""
        return self._kill_one("spark_jobs.faults.daemon", random_source)

    def kill_executor(self, random_source: Random) -> bool:
        """Kill the JVM of an executor; return False if there is none."""
        return self._kill_one("CoarseGrainedExecutorBackend", random_source)

    def _kill_one(self, word: str, random_source: Random) -> bool:
        found = [each for each in descendants(self._process.pid) if word in command_of(each)]
        if not found:
            return False
        try:
            os.kill(random_source.choice(sorted(found)), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def emptied(directory: Path) -> Path:
    """Return a directory without what a killed driver has left in it."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def descendants(process: int) -> list[int]:
    """Return the running processes that a process has started, directly or not."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(path.name))
    found, to_visit = [], [process]
    while to_visit:
        new = children.get(to_visit.pop(), [])
        found += new
        to_visit += new
    return found


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""

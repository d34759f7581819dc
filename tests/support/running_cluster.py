"""The command `kwire cluster start` as a process, with child processes for its nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire.own_processes import command_of, environment
from tests.support.processes import SECONDS


class RunningCluster:
    """A cluster that has printed that it is ready."""

    def __init__(self, process: subprocess.Popen[str], data: Path) -> None:
        self.process = process
        self.data = data
        self.said: list[str] = []
        self.addresses = self.wait_for("(Ctrl-C stops all nodes)").rpartition(" (")[0].rpartition(": ")[2].split(",")

    def wait_for(self, words: str) -> str:
        """Return the next line that contains the words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return line.rstrip("\n")
        raise AssertionError(f"it never said {words!r}: {self.said}")

    def node_ids(self) -> dict[str, int]:
        """Return the process ids of the nodes by name."""
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split() for line in listed.splitlines() if f"{self.data}/" in line]
        return {Path(row[-1]).stem: int(row[0]) for row in rows if "--stop-with-stdin" in row}

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.said += self.process.stdout.readlines()
        return self.process.wait(SECONDS)


@contextmanager
def started(data: Path, *arguments: str, cwd: Path | None = None) -> Iterator[RunningCluster]:
    process = subprocess.Popen(
        command_of("kwire", "cluster", "start", "--data", str(data), "--port", "0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment(),
    )
    try:
        yield RunningCluster(process, data)
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()

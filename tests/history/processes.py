"""Clients of a run: processes that can be killed and restart under their old id with a new name."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
STOP_SECONDS = 25.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of client: a module of tests.history.clients and its arguments."""

    module: str
    argument: str = ""
    is_writer: bool = True


@dataclass(slots=True)
class Client:
    """Client over all its incarnations."""

    id: str
    kind: Kind
    directory: Path
    bootstrap_server: str
    seed: int
    incarnation: int = 0
    process: subprocess.Popen[bytes] | None = None
    within: tuple[str, ...] = ()
    """Command that precedes the client's own, to run it elsewhere."""

    def start(self) -> None:
        self.incarnation += 1
        name = f"{self.id}.{self.incarnation}"
        arguments = [self.kind.argument] if self.kind.argument else []
        arguments += ["--name", name, "--bootstrap-server", self.bootstrap_server, "--seed", str(self.seed)]
        arguments += ["--journal", str(self.directory / f"{name}.jsonl")]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.within, sys.executable, "-m", f"tests.history.clients.{self.kind.module}", *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_SECONDS)

    @property
    def log(self) -> Path:
        """File with what the client writes to its standard output and standard error."""
        return self.directory / f"{self.id}.log"

    def log_stacks(self) -> None:
        """Let the client write the stacks of its threads to its log."""
        if self.process is not None and self.process.poll() is None:
            before = self.log.stat().st_size
            self.process.send_signal(signal.SIGUSR1)
            eventually(lambda: self.log.stat().st_size > before, f"the stacks of {self.id}", STOP_SECONDS)

    def ask_to_stop(self) -> None:
        if self.process is not None:
            self.process.terminate()

    def wait(self) -> bool:
        """Wait for its end; return True if it exited with status 0 by itself."""
        assert self.process is not None
        try:
            return self.process.wait(STOP_SECONDS) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False


KINDS = {
    "confluent": Kind("producer"),
    "second-confluent": Kind("producer"),
    "raw-v1": Kind("raw_producer", "v1"),
    "raw-v2": Kind("raw_producer", "v2"),
    "second-raw-v2": Kind("raw_producer", "v2"),
    "copier": Kind("copier"),
    "second-copier": Kind("copier"),
    "committed": Kind("reader", "committed", is_writer=False),
    "uncommitted": Kind("reader", "uncommitted", is_writer=False),
    "member": Kind("member", is_writer=False),
    "second-member": Kind("member", is_writer=False),
}


def clients(directory: Path, bootstrap_server: str, seed: int) -> list[Client]:
    return [Client(name, kind, directory, bootstrap_server, seed) for name, kind in KINDS.items()]

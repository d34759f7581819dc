"""The command `kwire server` as a separate process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = "kwire: serving Kafka on "
CONTROLS = "kwire: controlling on "
SECONDS = 30.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kwire", "server", *arguments]


def overrides(**settings: str) -> list[str]:
    """Return arguments for settings; dots in their names are written as underscores."""
    return [part for name, value in settings.items() for part in ("--override", f"{name.replace('_', '.')}={value}")]


def run_to_end(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to refuse to start."""
    return subprocess.run(command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=SECONDS, check=False)


class ServerProcess:
    """A server process that has printed that it is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said_before = ""
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith((READY, CONTROLS)):
                self.ready_line = line
                self.bootstrap_server = line.removeprefix(READY).removeprefix(CONTROLS).partition(",")[0]
                return
            self.said_before += line
        raise AssertionError(f"the server did not start: {self.said_before}")

    def signal_and_wait(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def rest(self) -> str:
        """Return the output since the server was ready; its process must have ended."""
        assert self.process.poll() is not None
        assert self.process.stdout is not None
        return self.process.stdout.read()


def shadow_modules(directory: Path) -> None:
    """Create user files named like Python modules, and a directory named like a folder of kwire."""
    for name in ("random", "select", "asyncio"):
        (directory / f"{name}.py").write_text("raise AssertionError('the file of a user')")
    (directory / "kwire").mkdir()


@contextmanager
def server(data_dir: Path, *arguments: str, **settings: str) -> Iterator[ServerProcess]:
    """Start a server on a free port with its data in data_dir; kill it at the end if it still runs."""
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log_dirs": str(data_dir)} | settings
    process = subprocess.Popen(
        command(*arguments, *overrides(**given)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield ServerProcess(process)
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()

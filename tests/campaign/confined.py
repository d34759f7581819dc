"""The command `kwire server` with a limit on its memory, and its memory usage.

The limit is a memory cgroup (v2 or v1, whichever is writable), which includes kernel memory of the process. Without
cgroups, it is RLIMIT_AS, which limits the address space; `how` contains the kind of the limit.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import READY, command, overrides

LIMIT_BYTES = 512 * 1024 * 1024
START_SECONDS = 30.0
V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


@dataclass(slots=True)
class Confined:
    """Server process that has printed that it is ready."""

    process: subprocess.Popen[bytes]
    log: Path
    how: str
    cgroup: Path | None
    bootstrap_server: str = ""

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def memory_bytes(self) -> int:
        return self._status("VmRSS")

    @property
    def memory_peak_bytes(self) -> int:
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        """Return a field of the process's status in bytes; 0 if it has ended."""
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024
        return 0

    @property
    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    @property
    def killed_for_memory(self) -> int:
        """Return how often the kernel killed a process in the cgroup for lack of memory."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError, AttributeError):
                assert self.cgroup is not None
                lines = dict(line.split() for line in (self.cgroup / name).read_text().splitlines())
                return int(lines.get("oom_kill", 0))
        return 0

    def errors(self) -> list[str]:
        """Return the internal errors in the log: hostile frames must not cause any."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "Traceback" in line or "ERROR" in line or "never retrieved" in line]


@contextmanager
def confined(directory: Path, settings: Mapping[str, str], *, memory_bytes: int = LIMIT_BYTES) -> Iterator[Confined]:
    """Start a server with its data in directory/data and its log in directory/server.log; kill it at the end.

    Dots in the names of settings are written as underscores.
    """
    cgroup = _make_cgroup(memory_bytes)
    how = _how(cgroup)
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log_dirs": str(directory / "data"), **settings}
    confine = f"echo $$ > {cgroup}/cgroup.procs" if cgroup else f"ulimit -v {memory_bytes // 1024}"
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", f'{confine} && exec "$@"', "sh", *command(*overrides(**given))], stdout=output, stderr=output
        )
    try:
        server = Confined(process, log, how, cgroup)
        server.bootstrap_server = _ready(server)
        yield server
    finally:
        process.kill()
        process.wait(START_SECONDS)
        if cgroup is not None:
            cgroup.rmdir()


def _how(cgroup: Path | None) -> str:
    if cgroup is None:
        return "RLIMIT_AS"
    return "cgroup v1" if cgroup.parent == V1 else "cgroup v2"


def _make_cgroup(memory_bytes: int) -> Path | None:
    name = f"kwire-frames-{os.getpid()}"
    for parent, limit in ((V2, "memory.max"), (V1, "memory.limit_in_bytes")):
        if parent == V2 and not (V2 / "cgroup.controllers").exists():
            continue
        cgroup = parent / name
        try:
            cgroup.mkdir()
        except OSError:
            continue
        try:
            (cgroup / limit).write_text(str(memory_bytes))
        except OSError:
            cgroup.rmdir()
            continue
        return cgroup
    return None


def _ready(server: Confined) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.is_alive:
        for line in server.log.read_text().splitlines():
            if line.startswith(READY):
                return line.removeprefix(READY).partition(",")[0]
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {server.log.read_text()}")

"""Python interface to benchmarks/load.c, which it compiles on first use."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.brokers import Run
from compat_tests.harness.install import install
from compat_tests.harness.paths import CACHE
from compat_tests.harness.ports import HOST

_NUMBERS = count()


@dataclass(frozen=True)
class Loaded:
    """Result of a load: rate, latencies and errors, and the broker's CPU time."""

    answers: float
    seconds: float
    bytes_received: float
    cpu_seconds: float
    latencies_us: tuple[float, ...]
    """Latencies at 50, 99 and 99.9 percent, from the time when a request was due or, without a rate, was sent."""

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


def load(
    run: Run,
    frames: Iterable[bytes],
    error_position: int,
    *,
    seconds: float,
    connections: int = 20,
    in_flight: int = 1,
    rate: int = 0,
    port: int = 0,
) -> Loaded:
    """Send encoded requests to a broker, or to the cluster's broker with this port."""
    path = run.directory / f"frames-{next(_NUMBERS)}"
    path.write_bytes(b"".join(frames))
    before = run.cpu_seconds()
    done = subprocess.run(
        [
            str(_program()),
            HOST,
            str(port or run.broker.port),
            *map(str, (connections, seconds, path, error_position, in_flight, rate)),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answers, taken, received, *latencies = map(float, done.stdout.split())
    return Loaded(answers, taken, received, run.cpu_seconds() - before, tuple(latencies))


def _program() -> Path:
    source = Path(__file__).with_name("load.c")
    program = CACHE / "bench" / "load"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        install("cc")
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-o", str(program), str(source)], check=True)
    return program

"""Docker daemon for a run: the running one or, if there is none, one that is started here and stopped at the end."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compat_tests.harness.install import install
from compat_tests.harness.waiting import eventually

START_SECONDS = 60.0
STOP_SECONDS = 60.0


def answers() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def docker_daemon() -> Iterator[None]:
    """Make sure that Docker is installed and a daemon answers inside the block."""
    install("docker")
    if answers():
        yield
        return
    if os.geteuid() != 0:
        raise SystemExit("no Docker daemon answers, and only root can start one: start it, or run this as root")
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "dockerd.txt"
        with log.open("wb") as output:
            daemon = subprocess.Popen(["dockerd"], stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            eventually(lambda: daemon.poll() is not None or answers(), "dockerd answers", START_SECONDS)
            if daemon.poll() is not None:
                raise SystemExit(f"dockerd ended with status {daemon.returncode}:\n{log.read_text()[-3000:]}")
            yield
        finally:
            daemon.terminate()
            daemon.wait(STOP_SECONDS)

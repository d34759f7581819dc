"""Programs and downloads that are not Python packages; the project's own script installs programs by name."""

import fcntl
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from compat_tests.harness.paths import ROOT


def install(*names: str) -> None:
    """Install programs by their names in install.sh; installed ones are skipped at once."""
    subprocess.run([str(ROOT / "compat_tests" / "install.sh"), *names], check=True)


def fetched(directory: Path, fetch: Callable[[Path], None]) -> Path:
    """Return a directory that `fetch` fills on first use; a lock lets concurrent runs share it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            fetch(directory)
            (directory / "complete").touch()
    return directory

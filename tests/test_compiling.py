"""What is compiled in the wheels for a platform must be what the compiler takes: it refuses some sound Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATE = """
import sys, tempfile
from mypyc.build import mypyc_build
from mypyc.options import CompilerOptions
from setup import hot_modules
with tempfile.TemporaryDirectory() as target:
    mypyc_build(hot_modules(), CompilerOptions(target_dir=target))
"""
"""The C sources of all modules; compiling those takes minutes, and finds nothing more."""


def test_the_hot_path_can_be_compiled(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GENERATE],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""Command and environment to start kwire's own modules as processes, with the running code, from any directory.

`python -m` alone would first search the current directory for modules: a user's random.py, or a data directory named
kwire, would replace the real module.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command of a module, to be started with `environment`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return this process's environment with the running kwire in PYTHONPATH, which -P may otherwise leave out."""
    package_root = str(Path(__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": f"{package_root}{os.pathsep}{inherited}" if inherited else package_root}

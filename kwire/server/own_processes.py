"""How kwire starts its own modules as processes: with the code that runs here, wherever it is started.

`python -m` alone would look for modules in the directory that people happen to be in first: their random.py, or their
data in a directory called kwire, would stand for the real one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def command_of(module: str, *arguments: str) -> list[str]:
    """To be started with `environment`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The one of this process, with the way to the kwire that runs, however that was found: -P may leave it out."""
    package_root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": f"{package_root}{os.pathsep}{inherited}" if inherited else package_root}

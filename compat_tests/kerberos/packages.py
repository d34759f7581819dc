"""Programs of Kerberos, and the Python package gssapi, which is compiled once below .cache/kerberos."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from compat_tests.harness.install import fetched, install
from compat_tests.harness.paths import CACHE, ROOT


def environment() -> dict[str, str]:
    """Return the variables by which Python finds the package; on first use, install the programs and compile it."""
    install("kerberos")
    return {"PYTHONPATH": os.pathsep.join((str(fetched(CACHE / "kerberos", _compile)), str(ROOT)))}


def _compile(directory: Path) -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["kerberos"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(directory), *requirements], check=True)

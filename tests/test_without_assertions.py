"""Python -O removes assertions: the broker refuses to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EMBEDDED = """
from kwire import Broker
try:
    Broker().start()
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("arguments", [["-m", "kwire", "server", "--override", "log.dirs=data"], ["-c", EMBEDDED]])
def test_row_56_no_broker_starts_with_python_o(tmp_path: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-O", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.removeprefix("kwire: ").startswith("python -O leaves out the assertions that protect what is stored")
    assert list(tmp_path.iterdir()) == []

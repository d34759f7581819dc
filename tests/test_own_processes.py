"""Processes that kwire starts run the same kwire, whatever else is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRINT_CHILD = """
import subprocess
from kwire.own_processes import environment
import sys
child = [sys.executable, "-P", "-c", "import kwire; print(kwire.__file__)"]
subprocess.run(child, env=environment(), check=True)
"""


@pytest.fixture(scope="module")
def copied_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with another copy of kwire than the installed one."""
    directory = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "kwire", directory / "kwire", ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_child_process_imports_the_same_copy_of_kwire(copied_package: Path) -> None:
    done = run(PRINT_CHILD, copied_package)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == copied_package / "kwire" / "__init__.py"


@pytest.mark.parametrize("name", ["server", "cli", "protocol", "chunks"])
def test_folders_of_kwire_are_no_modules_of_a_child_process(copied_package: Path, name: str) -> None:
    code = PRINT_CHILD.replace("import kwire; print(kwire.__file__)", f"import {name}")
    done = run(code, copied_package)
    assert f"No module named '{name}'" in done.stderr

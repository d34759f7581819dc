"""Documentation pages: the README's code runs, its commands exist, and the site navigation names every page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LINES_MAX = 60


def blocks(text: str) -> list[str]:
    """Return the Python code blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_readme_fits_on_a_screen() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_the_readmes_code_runs(tmp_path: Path) -> None:
    (tmp_path / "test_readme.py").write_text("\n\n".join(blocks(README)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_readme.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def commands() -> list[str]:
    """Return the command lines that a reader can paste, without comments."""
    return [line.split("  #")[0].strip() for line in README.splitlines() if line.startswith("    ") and line.strip()]


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("make ")])
def test_the_readmes_targets_exist(line: str) -> None:
    target = shlex.split(line)[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("kwire ")])
def test_the_readmes_commands_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    names = [word for word in words if word.isalpha()]
    options = [word for word in words if word.startswith("--")]
    shown = CliRunner().invoke(main, [*names[: 2 if names[0] in ("cluster", "config", "log") else 1], "--help"])
    assert shown.exit_code == 0
    assert all(option in shown.output for option in options)


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"^ +- ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert named == pages

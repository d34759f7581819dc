"""The transaction scripts of tests/scripts: each command's outcome is exactly what the script says.

KWIRE_REWRITE_SCRIPTS=1 writes what is seen into the scripts, to be read before it is believed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.coordinator.transaction_script import ScriptRunner
from tests.virtual_loop import virtual_loop

SCRIPTS = sorted((Path(__file__).parent.parent / "scripts").glob("transaction_*.txt"))


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 30


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    expected = script.read_text()
    seen = run_script(expected, tmp_path)
    if os.environ.get("KWIRE_REWRITE_SCRIPTS"):
        script.write_text(seen)
    assert seen == expected


def run_script(text: str, directory: Path) -> str:
    """The script with what was seen in place of what was expected."""
    written: list[str] = []
    with virtual_loop() as loop:
        runner = ScriptRunner(directory, loop)
        for line in text.splitlines():
            if line.startswith("> "):
                written += [line, *loop.run_until_complete(runner.run(line[2:]))]
            elif not line.strip() or line.startswith("#"):
                written.append(line)
        runner.stop()
    return "\n".join(written) + "\n"

"""Scripts of this folder: the quorum requests exactly the actions in each script.

KWIRE_REWRITE_SCRIPTS=1 writes the observed actions into the scripts; review them before use.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.quorum.script import ScriptRunner

FOLDER = Path(__file__).parent / "scripts"


def test_there_are_scripts() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 30


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.txt")), ids=lambda script: script.stem)
def test_script(script: Path) -> None:
    expected = script.read_text()
    runner = ScriptRunner()
    written: list[str] = []
    for line in expected.splitlines():
        if line.startswith("> "):
            written += [line, *runner.run(line[2:])]
        elif not line.strip() or line.startswith("#"):
            written.append(line)
    seen = "\n".join(written) + "\n"
    if os.environ.get("KWIRE_REWRITE_SCRIPTS"):
        script.write_text(seen)
    assert seen == expected

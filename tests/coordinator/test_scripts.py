"""Scripts of tests/scripts: the results of each command equal those in the script.

KWIRE_REWRITE_SCRIPTS=1 writes the observed results into the scripts; review them before use.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coordinator import consumer_script, group_script, streams_script, transaction_script
from tests.virtual_loop import virtual_loop

FOLDER = Path(__file__).parent.parent / "scripts"
Runner = group_script.ScriptRunner | transaction_script.ScriptRunner
RUNNERS: dict[str, Callable[[Path, asyncio.AbstractEventLoop], Runner]] = {
    "group": group_script.ScriptRunner,
    "consumer": consumer_script.ScriptRunner,
    "streams": streams_script.ScriptRunner,
    "transaction": transaction_script.ScriptRunner,
}
"""Runners by the prefix of the scripts' names."""


@pytest.mark.parametrize(("kind", "least"), [("group", 25), ("consumer", 15), ("streams", 20), ("transaction", 30)])
def test_there_are_scripts(kind: str, least: int) -> None:
    assert len(list(FOLDER.glob(f"{kind}_*.txt"))) >= least


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.txt")), ids=lambda script: script.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    expected = script.read_text()
    seen = run_script(script.name.partition("_")[0], expected, tmp_path)
    if os.environ.get("KWIRE_REWRITE_SCRIPTS"):
        script.write_text(seen)
    assert seen == expected


def run_script(kind: str, text: str, directory: Path) -> str:
    """Return the script with the observed results in place of the expected ones."""
    written: list[str] = []
    with virtual_loop() as loop:
        runner = RUNNERS[kind](directory, loop)
        for line in text.splitlines():
            if line.startswith("> "):
                written += [line, *loop.run_until_complete(runner.run(line[2:]))]
            elif not line.strip() or line.startswith("#"):
                written.append(line)
        runner.stop()
    return "\n".join(written) + "\n"

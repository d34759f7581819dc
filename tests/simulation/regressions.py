"""Seeds that failed once, and that `make test` runs again: regressions.txt has one per line, with the fault it found.

quorum 8 c525036    why it failed, before which commit repaired it
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("regressions.txt")


class Regression(NamedTuple):
    """Line of the file."""

    scenario: str
    seed: int
    commit: str
    why: str


def regressions(scenario: str) -> list[Regression]:
    """Return the regressions of one scenario."""
    found = []
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, seed, commit, why = line.split(maxsplit=3)
            found.append(Regression(name, int(seed), commit, why))
    return [each for each in found if each.scenario == scenario]

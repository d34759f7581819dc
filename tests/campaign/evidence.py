"""docs/evidence: a page for each campaign, a row for each of its runs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "evidence"


def current_commit() -> str:
    """What is run, to be asked when a run begins: it may not be what is there when it ends."""
    ended = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """One page: how its file is called, what it says above the table, and the table's columns."""

    name: str
    text: str
    columns: str
    """As Markdown has them: "commit | seed | ..."."""

    def append(self, *cells: object) -> None:
        """One row; the page is made if there is none."""
        path = FOLDER / self.name
        if not path.exists():
            FOLDER.mkdir(parents=True, exist_ok=True)
            rule = "---|" * (self.columns.count("|") + 1)
            path.write_text(f"{self.text}\n\n| {self.columns} |\n|{rule}\n")
        with path.open("a") as file:
            file.write(f"| {' | '.join(map(str, cells))} |\n")

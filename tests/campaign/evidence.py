"""Campaign results as data: docs/evidence/NAME.jsonl has a line for each run, and index.md summarises all files.

The first line of a file describes the campaign. Each following line is a run: the commit, the kind and amount of work,
and the outcome. `python -m tests.campaign.evidence` writes the summary again.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "evidence"
OUTCOME_SHOWN_MAX = 120


def current_commit() -> str:
    """Return the checked-out commit; a campaign calls this at its start, because the commit may change meanwhile."""
    ended = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Campaign: the name of its file, a title, the meaning of its columns, and the summary of its runs."""

    name: str
    title: str
    about: str
    columns: Sequence[str]
    counted: str
    """Column whose numbers the summary adds up."""
    sound: str
    """Regular expression for an outcome without a finding."""

    def append(self, *cells: object) -> None:
        """Add a run, and write the summary again."""
        path = FOLDER / f"{self.name}.jsonl"
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        run = dict(zip(self.columns, map(str, cells), strict=True))
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([json.dumps(asdict(self)), *lines, json.dumps(run)]) + "\n")
        write_summary(FOLDER)


def write_summary(folder: Path = FOLDER) -> None:
    """Write index.md from the data files of a folder."""
    (folder / "index.md").write_text(summary(folder))


def summary(folder: Path = FOLDER) -> str:
    """Return the page that sums up the data files of a folder."""
    rows = [_row(path) for path in sorted(folder.glob("*.jsonl"))]
    reports = sorted(path.stem for path in folder.glob("*.md") if path.stem != "index")
    return "\n".join(
        [
            "# Evidence",
            "",
            "Long runs of `make campaign`, summed up from one data file for each campaign. A finding is a failure of",
            "kwire, or of the campaign itself; each has led to a fix or to a row of [differences](../differences.md).",
            "",
            "| campaign | runs | counted | runs with a finding | last run | its outcome |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "Work of each campaign over its runs, and the runs with a finding (`make plots`):",
            "",
            "![Runs with and without findings](findings.svg)",
            "",
            "Reports of single runs, with their tables: " + ", ".join(f"[{name}]({name}.md)" for name in reports) + ".",
            "",
        ]
    )


def _row(path: Path) -> str:
    about, *runs = map(json.loads, path.read_text().splitlines())
    findings = [run for run in runs if not re.search(about["sound"], run["outcome"])]
    counted = sum(int(re.sub(r"\D", "", run[about["counted"]]) or 0) for run in runs)
    last = runs[-1]
    outcome = last["outcome"]
    shown = outcome if len(outcome) <= OUTCOME_SHOWN_MAX else outcome[:OUTCOME_SHOWN_MAX] + " ..."
    cells = [
        f"[{about['title']}]({path.name})",
        str(len(runs)),
        f"{counted:,} {about['counted']}",
        f"{len(findings)}" + (f", the last at {findings[-1]['commit']}" if findings else ""),
        last["commit"],
        shown,
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    write_summary()

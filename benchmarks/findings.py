"""Plot docs/evidence/findings.svg: how much work each campaign had done at each run, and which runs found a fault.

`make plots` runs it; the data are the files of tests/campaign/evidence.py.
"""

import json
import re
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from compat_tests.harness.paths import ROOT

FOLDER = ROOT / "docs" / "evidence"
PLOT = FOLDER / "findings.svg"
ROW_INCHES = 0.42


class Runs(NamedTuple):
    """Runs of a campaign: the share of all its work done after each, and the indexes of those with a finding."""

    title: str
    done: list[float]
    findings: list[int]


def runs_of(path: Path) -> Runs:
    """Read a campaign's data file."""
    about, *lines = map(json.loads, path.read_text().splitlines())
    work = [int(re.sub(r"\D", "", line[about["counted"]]) or 0) for line in lines]
    done = [each / sum(work) for each in accumulate(work)]
    findings = [index for index, line in enumerate(lines) if not re.search(about["sound"], line["outcome"])]
    return Runs(f"{about['title']} ({sum(work):,} {about['counted']})", done, findings)


def main() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kwire"
    from matplotlib import pyplot as plt

    campaigns = [runs_of(path) for path in sorted(FOLDER.glob("*.jsonl"), reverse=True)]
    figure, axes = plt.subplots(figsize=(10, ROW_INCHES * len(campaigns) + 1))
    for row, campaign in enumerate(campaigns):
        found = [campaign.done[index] for index in campaign.findings]
        axes.plot([0, 1], [row, row], color="#d0d0d0", linewidth=1, zorder=1)
        axes.scatter(campaign.done, [row] * len(campaign.done), marker="|", color="#2a7f4f", zorder=2)
        axes.scatter(found, [row] * len(found), color="#b5482f", zorder=3)
    axes.set_yticks(range(len(campaigns)), [campaign.title for campaign in campaigns], fontsize=7)
    axes.set_xlim(0, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("work done so far; a line is a run, a point is a run with a finding")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    main()

"""docs/benchmarks.md: the table and the plot between its two marks; what stands around them is written by hand."""

import platform
import subprocess
from datetime import UTC, datetime

from benchmarks import report
from benchmarks.brokers import COMPARED
from compat_tests.harness.paths import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "benchmarks.svg"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(samples: report.Samples, rounds: int) -> None:
    """Put a run's figures into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{measured(samples, rounds)}\n{END}{after}")
    plot(samples)


def measured(samples: report.Samples, rounds: int) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = [
        (
            f"Commit {commit}, {datetime.now(UTC):%Y-%m-%d}, {rounds} rounds. CPython {platform.python_version()},"
            f" {platform.system()} {platform.release()}."
        ),
        "",
        "| figure | kwire | Apache Kafka 4.3.1 | ratio | wanted |",
        "|---|---|---|---|---|",
    ]
    for figure, by_broker in samples.items():
        name, ours, theirs, ratio, bound = report.cells(figure, by_broker, COMPARED)
        if ratio and not report.is_met(figure, by_broker):
            ratio = f"**{ratio}**"
        lines.append(f"| {name} | {ours} | {theirs} | {ratio} | {bound} |")
    return "\n".join(lines)


def plot(samples: report.Samples) -> None:
    """Ratios as bars around 1, on a scale on which twice and half are equally long."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kwire"
    from matplotlib import pyplot as plt

    shown = [(figure, value) for figure, by_broker in samples.items() if (value := report.ratio(by_broker))]
    figure, axes = plt.subplots(figsize=(10, 0.28 * len(shown) + 1))
    for row, (name, value) in enumerate(reversed(shown)):
        low_is_good = not name.endswith(("/s", "/s, 1 in flight", "/s, 5 in flight")) and "requests/s" not in name
        good = value <= 1 if low_is_good else value >= 1
        axes.barh(row, value - 1, left=1, color="#2a7f4f" if good else "#b5482f")
    axes.set_xscale("log", base=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [name for name, _ in reversed(shown)], fontsize=7)
    axes.set_xlabel("kwire / Apache Kafka 4.3.1, medians; green is better for kwire")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})

"""Writer of docs/benchmarks.md: tables between their marks, and the plot. The text around them is written by hand."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import report
from benchmarks.brokers import COMPARED
from compat_tests.harness.paths import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "benchmarks.svg"


def write(section: str, samples: report.Samples, how_often: str) -> None:
    """Write a run's figures into the page."""
    put(PAGE, section, measured(samples, how_often))


def put(path: Path, section: str, text: str) -> None:
    """Replace the text between the two marks of a section."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, mark, rest = path.read_text().partition(begin)
    assert mark, f"{path} has no {begin}"
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def provenance(how_often: str) -> str:
    """Return a sentence with the measured commit, the date and the machine."""
    ask = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return (
        f"Commit {commit}, {datetime.now(UTC):%Y-%m-%d}, {how_often}. CPython {platform.python_version()},"
        f" {platform.system()} {platform.release()}."
    )


def measured(samples: report.Samples, how_often: str) -> str:
    lines = [
        provenance(how_often),
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
    """Plot how many times better than Kafka kwire is, as bars from 1; 2 and 1/2 have bars of the same length."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kwire"
    from matplotlib import pyplot as plt

    ratios = {figure: report.ratio(by_broker) for figure, by_broker in samples.items()}
    shown = [(figure, value if more_is_better(figure) else 1 / value) for figure, value in ratios.items() if value]
    figure, axes = plt.subplots(figsize=(10, 0.26 * len(shown) + 1))
    for row, (_, times) in enumerate(reversed(shown)):
        axes.barh(row, times - 1, left=1, color="#2a7f4f" if times >= 1 else "#b5482f")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.margins(y=0.01)
    axes.set_yticks(range(len(shown)), [name for name, _ in reversed(shown)], fontsize=7)
    axes.set_xlabel("times better than Apache Kafka 4.3.1 (medians)")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def more_is_better(figure: str) -> bool:
    """Return True for rates, and False for seconds, memory and CPU, of which less is better."""
    return "/s" in figure and not figure.startswith("latency")

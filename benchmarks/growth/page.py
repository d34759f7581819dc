"""docs/growth.md: a table for each axis between its marks, every sample in docs/evidence/growth.json, and the plot."""

import json
from collections.abc import Iterable, Mapping

from benchmarks import page
from benchmarks.growth.axis import Axis, Samples, no_samples
from benchmarks.growth.tables import ratios, table
from benchmarks.report import number
from compat_tests.harness.paths import ROOT

PAGE = ROOT / "docs" / "growth.md"
EVIDENCE = ROOT / "docs" / "evidence" / "growth.json"


def write(axes: Iterable[Axis], measured: Mapping[str, Samples], how_often: str) -> None:
    """Put an axis's figures into its section and into the evidence."""
    for axis in axes:
        samples = measured[axis.name]
        parts = [page.provenance(how_often), table(axis, samples), ratios(axis, samples)]
        page.put(PAGE, axis.name, "\n\n".join(part for part in parts if part))
    kept = load_evidence() | dict(measured)
    EVIDENCE.write_text(json.dumps(kept, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def write_once(section: str, figures: Mapping[str, float]) -> None:
    """Put figures without sizes into their section; none leave it as it is."""
    if figures:
        lines = [
            "| figure | kwire |",
            "|---|---|",
            *(f"| {name} | {number(value)} |" for name, value in figures.items()),
        ]
        page.put(PAGE, section, page.provenance("once") + "\n\n" + "\n".join(lines))


def load_evidence() -> dict[str, Samples]:
    """Every sample of the newest run of each axis."""
    if not EVIDENCE.exists():
        return {}
    found: dict[str, Samples] = {}
    for axis, by_figure in json.loads(EVIDENCE.read_text()).items():
        found[axis] = no_samples()
        for figure, by_broker in by_figure.items():
            for broker, series in by_broker.items():
                for size, values in series.items():
                    found[axis][figure][broker][int(size)] = values
    return found

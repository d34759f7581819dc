"""Writer of docs/growth.md (a table for each axis), docs/evidence/growth.json (all samples) and the plot."""

from collections.abc import Iterable, Mapping

from benchmarks import page
from benchmarks.growth.axis import Axis, Samples, from_text, to_text
from benchmarks.growth.tables import ratios, table
from benchmarks.report import number
from compat_tests.harness.paths import ROOT

PAGE = ROOT / "docs" / "growth.md"
EVIDENCE = ROOT / "docs" / "evidence" / "growth.json"


def write(axes: Iterable[Axis], measured: Mapping[str, Samples], how_often: str) -> None:
    """Write each axis's figures into its section of the page, and the samples into the evidence file."""
    for axis in axes:
        samples = measured[axis.name]
        parts = [page.provenance(how_often), table(axis, samples), ratios(axis, samples)]
        page.put(PAGE, axis.name, "\n\n".join(part for part in parts if part))
    EVIDENCE.write_text(to_text(load_evidence() | dict(measured)))


def write_once(section: str, figures: Mapping[str, float]) -> None:
    """Write figures that have no sizes into their section; without figures, leave the section unchanged."""
    if figures:
        lines = [
            "| figure | kwire |",
            "|---|---|",
            *(f"| {name} | {number(value)} |" for name, value in figures.items()),
        ]
        page.put(PAGE, section, page.provenance("once") + "\n\n" + "\n".join(lines))


def load_evidence() -> dict[str, Samples]:
    """Return all samples of each axis's newest run."""
    return from_text(EVIDENCE.read_text()) if EVIDENCE.exists() else {}

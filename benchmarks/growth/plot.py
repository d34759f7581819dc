"""Plot docs/growth.svg: for each axis the flat costs, as multiples of the smallest size, and the linear costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.growth.axis import Axis, Samples
from benchmarks.growth.series import FLAT_AT_MOST, Shape
from benchmarks.growth.tables import Lines, lines_of
from compat_tests.harness.paths import ROOT

PLOT = ROOT / "docs" / "growth.svg"
STYLES = {"kwire": "-", "kwire-pure": "-", "kafka": ":"}


def plot(axes: Sequence[Axis], measured: Mapping[str, Samples]) -> None:
    """Draw two panels for each axis that was measured; Kafka's lines are dotted."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kwire"
    from matplotlib import pyplot as plt

    shown = [axis for axis in axes if axis.name in measured]
    figure, grid = plt.subplots(len(shown), 2, figsize=(13, 4.2 * len(shown)), squeeze=False)
    for row, axis in zip(grid, shown, strict=True):
        for panel, shape in zip(row, (Shape.FLAT, Shape.LINEAR), strict=True):
            _draw(panel, axis, shape, lines_of(axis, measured[axis.name], shape))
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def _draw(panel: Any, axis: Axis, shape: Shape, lines: Lines) -> None:
    colours: dict[str, str] = {}
    for name, broker, points in lines:
        colour = colours.setdefault(name, f"C{len(colours) % 10}")
        label = name if broker != "kafka" else None
        panel.plot(
            list(points), list(points.values()), STYLES[broker], color=colour, label=label, marker=".", linewidth=1
        )
    if shape is Shape.FLAT:
        panel.axhspan(1 / FLAT_AT_MOST, FLAT_AT_MOST, color="black", alpha=0.08, linewidth=0)
        panel.set_yscale("log", base=2)
        lowest, highest = panel.get_ylim()
        panel.set_ylim(min(lowest, 0.5), max(highest, 2))
    else:
        panel.set_yscale("log")
    panel.set_title(
        f"{axis.name}: " + ("cost over that at the smallest size" if shape is Shape.FLAT else "cost"), fontsize=9
    )
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.minorticks_off()
    panel.tick_params(labelsize=7)
    if lines:
        panel.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))

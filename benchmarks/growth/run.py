"""`make bench ROW=growth`: what a broker costs as partitions, groups, connections and fetch sessions grow.

A run of its own, which the run without a row leaves out; ROW=growth-partitions and so on run one axis. In every round
each size of an axis is measured on a fresh broker; odd rounds begin with the smallest size, even ones with the largest,
so that a drift of the machine is no growth. A run of both brokers with enough rounds writes docs/growth.md.
"""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.brokers import COMPARED
from benchmarks.growth import page, partitions, tables
from benchmarks.growth.axis import Axis, Samples, no_samples
from benchmarks.growth.plot import plot

ROUNDS = 3
AXES = (
    Axis(
        "partitions",
        "partition",
        (10, 50, 300, 2_000),
        (10, 300, 2_000),
        partitions.measure,
        ("all ", "memory", "restart", "clean stop"),
    ),
)
ROWS = ("growth", *(f"growth-{axis.name}" for axis in AXES))


def run(wanted: Sequence[str], rounds: int, brokers: Sequence[str], console: Console) -> bool:
    """Measure the axes of these rows; whether all is as flat and linear as wanted."""
    axes = [axis for axis in AXES if "growth" in wanted or f"growth-{axis.name}" in wanted]
    measured = {axis.name: no_samples() for axis in axes}
    started = time.monotonic()
    for number in range(1, rounds + 1):
        for axis in axes:
            for size in axis.sizes if number % 2 else reversed(axis.sizes):
                for name in brokers if number % 2 else reversed(brokers):
                    if size in axis.sizes_of(name):
                        minutes = (time.monotonic() - started) / 60
                        progress = f"round {number} of {rounds}, {minutes:.1f} min: {name}, {size:,} {axis.name}"
                        console.print(progress, style="dim")
                        _add(measured[axis.name], name, size, axis)
    for axis in axes:
        console.print(_shown(axis, measured[axis.name]))
    if tuple(brokers) == COMPARED and rounds >= ROUNDS:
        page.write(axes, measured, f"{rounds} rounds")
        plot(AXES, page.load_evidence())
    return not any(tables.missed(axis, measured[axis.name]) for axis in axes)


def _add(samples: Samples, name: str, size: int, axis: Axis) -> None:
    for figure, value in axis.measure(name, size).items():
        samples[figure][name][size].append(value)


def _shown(axis: Axis, samples: Samples) -> Table:
    shown = Table(title=f"cost by {axis.name}, medians")
    for title in tables.header(axis):
        shown.add_column(title, justify="left" if title in ("figure", "broker", "") else "right")
    for cells in tables.rows(axis, samples):
        shown.add_row(*cells, style="bold red" if tables.is_bad(cells[-1]) else "")
    return shown

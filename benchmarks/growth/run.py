"""`make bench ROW=growth`: what a broker costs as partitions, groups, connections and fetch sessions grow.

This run is separate: a run without ROW leaves it out; ROW=growth-partitions and so on run one axis. In every round
each size of an axis is measured on a fresh broker. Odd rounds begin with the smallest size, even rounds with the
largest, so that a machine that becomes slower does not look like growth. A short run (fewer rounds) measures kwire
only; a full run writes docs/growth.md and its plot.
"""

import subprocess
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.brokers import COMPARED
from benchmarks.growth import connections, elections, groups, limits, page, partitions, sessions, tables
from benchmarks.growth.axis import Axis, Samples, no_samples, order
from benchmarks.growth.plot import plot

ROUNDS = 3
AXES = (
    Axis(
        "partitions",
        "partition",
        (10, 50, 300, 2_000, 10_000, 50_000),
        (10, 300, 2_000),
        partitions.measure,
        ("all ", "memory", "restart", "clean stop"),
    ),
    Axis("topics in a session", "topic", (1, 10, 100, 1_000, 10_000), (1, 100, 1_000), sessions.measure, ("session",)),
    Axis(
        "groups",
        "group",
        (10, 50, 250, 1_000, 5_000),
        (),
        groups.measure,
        ("all ", "memory", "list all", "clean stop", "restart"),
    ),
    Axis("connections", "connection", (10, 50, 250, 1_000, 5_000), (), connections.measure, ("all ", "memory")),
    Axis(
        "elections",
        "partition",
        (10, 100, 1_000, 3_000),
        (),
        elections.measure,
        ("all ", "memory", "stop", "in sync", "election of all", "kill"),
        rounds=1,
    ),
)
LIMITS = "growth-limits"
ROWS = ("growth", LIMITS, *(axis.row for axis in AXES))


def run(wanted: Sequence[str], rounds: int, brokers: Sequence[str], console: Console, largest: int = 0) -> bool:
    """Measure the axes of these rows, up to the largest size; return True if no figure of kwire misses its shape."""
    axes = [axis.up_to(largest) for axis in AXES if "growth" in wanted or axis.row in wanted]
    measured = {axis.name: no_samples() for axis in axes}
    brokers = brokers or (COMPARED if rounds >= ROUNDS else COMPARED[:1])
    is_whole = tuple(brokers) == COMPARED and rounds >= ROUNDS and not largest
    failures: list[str] = []
    started = time.monotonic()
    for number in range(1, rounds + 1):
        for axis, size, name in order(axes, number, brokers):
            minutes = (time.monotonic() - started) / 60
            what = f"round {number} of {rounds}, {minutes:.1f} min: {name}, {axis.name}, {size:,} {axis.element}s"
            console.print(what, style="dim")
            try:
                figures = axis.measure(name, size)
            except (AssertionError, OSError, SystemExit, subprocess.SubprocessError) as error:
                failures.append(f"{what}: {error!r}")
                console.print(failures[-1], style="bold red")
            else:
                for figure, value in figures.items():
                    measured[axis.name][figure][name][size].append(value)
    once = limits.limits(brokers[0]) if LIMITS in wanted or (is_whole and "growth" in wanted) else {}
    _show(console, axes, measured, once)
    if is_whole:
        page.write(axes, measured, f"{rounds} rounds")
        page.write_once("limits", once)
        plot(AXES, page.load_evidence())
    return not failures and not any(tables.missed(axis, measured[axis.name]) for axis in axes)


def _show(console: Console, axes: Sequence[Axis], measured: Mapping[str, Samples], once: Mapping[str, float]) -> None:
    for axis in axes:
        shown = Table(title=f"cost by {axis.name}, medians")
        for title in tables.header(axis):
            shown.add_column(title, justify="left" if title in ("figure", "broker", "") else "right")
        for cells in tables.rows(axis, measured[axis.name]):
            shown.add_row(*cells, style="bold red" if tables.is_bad(cells[-1]) else "")
        console.print(shown)
    for figure, value in once.items():
        console.print(f"{figure}: {report.number(value)}")

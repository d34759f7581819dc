"""`make bench`: kwire beside Apache Kafka in one run, alternately, and one table of medians.

Each round starts both brokers one after the other, on fresh directories, and the order changes from round to round.
The table shows each figure's median over the rounds with the lowest and highest value, and the ratio of the medians.
A full run of at least three rounds writes its table and the plot into docs/benchmarks.md; so do the row three-brokers,
and the rows tls and acls together, without the plot.
The rows growth and growth-... are separate runs (benchmarks/growth).
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from benchmarks import page, report
from benchmarks.brokers import BROKERS, COMPARED, Run
from benchmarks.growth import run as growth
from benchmarks.rows import ALONE, FIRST, ONCE, ROWS, THRICE, small

ROUNDS = 5
SHOWN_SINCE = 3
"""Minimum number of rounds before a full run writes the page; Kafka's perf tools run in the first three only."""
console = Console(width=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare kwire with Apache Kafka on this machine.")
    parser.add_argument(
        "--row", choices=[*ROWS, *ONCE, *growth.ROWS], action="append", help="run this row only; may be repeated"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--broker", choices=BROKERS, action="append", help="measure these brokers instead of the two")
    parser.add_argument("--largest", type=int, default=0, help="the row growth: sizes up to this one only")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    arguments = parser.parse_args()
    if growth_rows := [row for row in arguments.row or () if row in growth.ROWS]:
        rounds = arguments.rounds or growth.ROUNDS
        sys.exit(not growth.run(growth_rows, rounds, arguments.broker or (), console, arguments.largest))
    arguments.rounds = arguments.rounds or ROUNDS
    samples: report.Samples = defaultdict(lambda: defaultdict(list))
    started = time.monotonic()
    brokers = arguments.broker or COMPARED
    in_rounds = [row for row in ROWS if row in (arguments.row or ROWS.keys() - ALONE)]
    for row in ONCE:
        if row in (arguments.row or ONCE.keys() - ALONE) and not arguments.broker:
            console.print(f"once, {(time.monotonic() - started) / 60:.1f} min: {row}", style="dim")
            samples.update(ONCE[row]())
    for number in range(1, arguments.rounds + 1 if in_rounds else 1):
        for name in brokers if number % 2 else reversed(brokers):
            progress = f"round {number} of {arguments.rounds}, {(time.monotonic() - started) / 60:.1f} min"
            measure(name, [row for row in in_rounds if number <= SHOWN_SINCE or row not in THRICE], samples, progress)
    console.print(report.table(samples, arguments.rounds, brokers))
    if arguments.json:
        arguments.json.write_text(json.dumps(samples, indent=1))
    if not (arguments.row or arguments.broker) and arguments.rounds >= SHOWN_SINCE:
        page.write("measured", samples, f"{arguments.rounds} rounds, three of Kafka's own perf tools")
        page.plot(samples)
    if set(arguments.row or ()) == {"tls", "acls"} and not arguments.broker:
        page.write("security", samples, "3 brokers of each, alternately")
    if arguments.row == ["three-brokers"] and not arguments.broker:
        page.write("three brokers", samples, "3 clusters of each, 30 takeovers")
    sys.exit(bool(report.missed(samples)))


def measure(name: str, rows: Iterable[str], samples: report.Samples, progress: str) -> None:
    with Run(name) as run:
        is_warm = False
        for row in rows:
            if not is_warm and row not in FIRST:
                small.warm_up(run)
            is_warm = is_warm or row != "start"
            console.print(f"{progress}: {name}, {row}", style="dim")
            for figure, value in ROWS[row](run).items():
                samples[figure][name].append(value)


if __name__ == "__main__":
    main()

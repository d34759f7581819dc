"""`make bench`: kwire beside Apache Kafka in one run, alternately, and one table of medians.

Each round starts both brokers afresh, one after the other, on fresh directories, and the order changes from round to
round. Of each figure the median over the rounds is shown with the lowest and highest, and the ratio of the medians.
"""

import argparse
import json
import platform
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.brokers import BROKERS, Run
from benchmarks.workloads import ROWS

ROUNDS = 5
WANTED: dict[str, tuple[str, float]] = {
    "start to first answer, s": ("at most", 0.25),
    "memory idle, MB": ("at most", 0.2),
    "small requests/s": ("at least", 1.2),
    "produce 100 B, records/s": ("at least", 0.8),
    "produce 1000 B, records/s": ("at least", 0.8),
    "consume 100 B, records/s": ("at least", 0.8),
    "consume 1000 B, records/s": ("at least", 0.8),
}
"""What kwire's median over Kafka's has to be."""

Samples = dict[str, dict[str, list[float]]]
console = Console(width=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare kwire with Apache Kafka on this machine.")
    parser.add_argument("--row", choices=ROWS, action="append", help="run this row only; may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--broker", choices=BROKERS, action="append", help="measure this broker only")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    arguments = parser.parse_args()
    samples: Samples = defaultdict(lambda: defaultdict(list))
    for number in range(1, arguments.rounds + 1):
        order = arguments.broker or list(BROKERS)
        for name in order if number % 2 else reversed(order):
            measure(name, arguments.row or ROWS, samples, f"round {number} of {arguments.rounds}")
    console.print(table(samples, arguments.rounds))
    if arguments.json:
        arguments.json.write_text(json.dumps(samples, indent=1))
    sys.exit(bool(missed(samples)))


def measure(name: str, rows: Iterable[str], samples: Samples, progress: str) -> None:
    with Run(name) as run:
        for row in rows:
            console.print(f"{progress}: {name}, {row}", style="dim")
            for figure, value in ROWS[row](run).items():
                samples[figure][name].append(value)


def ratio(by_broker: dict[str, list[float]]) -> float | None:
    if not (by_broker.get("kwire") and by_broker.get("kafka")):
        return None
    return statistics.median(by_broker["kwire"]) / statistics.median(by_broker["kafka"])


def is_met(figure: str, by_broker: dict[str, list[float]]) -> bool:
    value = ratio(by_broker)
    if figure not in WANTED or value is None:
        return True
    kind, bound = WANTED[figure]
    return value <= bound if kind == "at most" else value >= bound


def missed(samples: Samples) -> list[str]:
    return [figure for figure, by_broker in samples.items() if not is_met(figure, by_broker)]


def table(samples: Samples, rounds: int) -> Table:
    shown = Table(title=f"medians of {rounds} alternated rounds [lowest-highest], {platform.platform()}")
    for column in ("figure", "kwire", "Apache Kafka 4.3.1", "ratio", "wanted"):
        shown.add_column(column, justify="left" if column == "figure" else "right")
    for figure, by_broker in samples.items():
        value = ratio(by_broker)
        wanted = " ".join(map(str, WANTED.get(figure, ())))
        style = "" if is_met(figure, by_broker) else "bold red"
        cells = [spread(by_broker.get(name, [])) for name in ("kwire", "kafka")]
        shown.add_row(figure, *cells, "" if value is None else f"{value:.2f}", wanted, style=style)
    return shown


def spread(values: list[float]) -> str:
    if not values:
        return ""
    return f"{number(statistics.median(values))} [{number(min(values))}-{number(max(values))}]"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    main()

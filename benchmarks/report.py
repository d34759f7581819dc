"""Summary of the samples: medians, spreads, ratios, and whether kwire meets its targets."""

import platform
import statistics
from collections.abc import Mapping, Sequence

from rich.table import Table

Samples = dict[str, dict[str, list[float]]]
"""Figure -> broker -> one value per round."""

TITLES = {"kwire": "kwire", "kafka": "Apache Kafka 4.3.1", "kwire-pure": "kwire, pure Python"}

WANTED: Mapping[str, tuple[str, float]] = {
    "start to first answer, s": ("at most", 0.15),
    "memory idle, MB": ("at most", 0.15),
    "memory after load, MB": ("at most", 0.15),
    "small requests/s": ("at least", 1.5),
    "CPU s per million requests": ("at most", 0.6),
    "produce": ("at least", 0.9),
    "consume": ("at least", 0.9),
    "CPU s per GB": ("at most", 0.9),
    "latency p50 at": ("at most", 1.0),
    "latency p99,": ("at most", 1.2),
    "end to end": ("at most", 0.8),
    "restart of 1,000 partitions, 5 GB, all unflushed": ("at most", 1.0),
    "cold reads": ("at least", 0.9),
    "compaction": ("at least", 0.5),
    "transactions/s, 1 producers, durable": ("at least", 1.0),
    "transactions/s, 20 producers, durable": ("at least", 1.0),
    "offset commits/s": ("at least", 1.2),
    "1,000 members of a consumer group stable": ("at most", 1.0),
    "stable again after 100 have left": ("at most", 1.0),
    "CPU s for a consumer group of 1,000": ("at most", 0.5),
    "consumer group heartbeats/s": ("at least", 1.5),
    "share group of": ("at least", 1.0),
    "TLS handshakes/s": ("at least", 1.0),
    "SCRAM-SHA-256 logins/s": ("at least", 1.0),
    "cluster of 3 started": ("at most", 0.2),
    "cluster of 3, memory": ("at most", 0.15),
    "replicated produce": ("at least", 0.9),
    "replicated latency p99": ("at most", 1.2),
    "takeover": ("at most", 1.1),
    "3,000 partitions of 3 replicas made": ("at most", 1.0),
    "3,000 partitions in sync again": ("at most", 1.0),
}
"""Prefix of a figure -> the bound of kwire's median divided by Kafka's."""
WANTED_OF_KWIRE: Mapping[str, tuple[str, float]] = {
    "live produce p99 beside cold reads, times": ("at most", 2.0),
    "10,000 idle connections, KB each": ("at most", 6.0),
    "2,000 idle TLS connections, KB each": ("at most", 60.0),
    "with 10,000 ACLs, times": ("at least", 0.95),
    "append of 16 KB": ("at least", 0.6),
    "append of 1 MB": ("at least", 0.9),
    "cached read": ("at least", 0.9),
    "look-up by offset in 5 GB p50": ("at most", 150.0),
    "look-up by time in 5 GB p50": ("at most", 150.0),
    "ISR change: 50,000 to": ("at most", 1.5),
    "topic creation: 50,000 to": ("at most", 1.5),
    "config change: 50,000 to": ("at most", 1.5),
    "restart of 1,000 partitions, 5 GB, clean": ("at most", 1.0),
    "start with 10,000 partitions": ("at most", 6.0),
    "memory of a partition among 10,000": ("at most", 5.0),
    "descriptors with 10,000 partitions": ("at most", 20_000.0),
    "load of a million committed offsets": ("at most", 15.0),
    "loop held while a million offsets": ("at most", 50.0),
}
"""Prefix of a figure -> the bound of kwire's own median."""


def wanted(figure: str) -> tuple[str, float] | None:
    """Return the bound of a figure's ratio."""
    return _bound(figure, WANTED)


def wanted_of_kwire(figure: str) -> tuple[str, float] | None:
    """Return the bound of kwire's own median."""
    return _bound(figure, WANTED_OF_KWIRE)


def _bound(figure: str, bounds: Mapping[str, tuple[str, float]]) -> tuple[str, float] | None:
    """Return the bound of the longest prefix of the figure."""
    prefix = max((prefix for prefix in bounds if figure.startswith(prefix)), key=len, default="")
    return bounds.get(prefix)


def _holds(value: float, bound: tuple[str, float]) -> bool:
    return value <= bound[1] if bound[0] == "at most" else value >= bound[1]


def ratio(by_broker: Mapping[str, list[float]]) -> float | None:
    """Return kwire's median divided by Kafka's."""
    ours, theirs = by_broker.get("kwire"), by_broker.get("kafka")
    if not ours or not theirs or not statistics.median(theirs):
        return None
    return statistics.median(ours) / statistics.median(theirs)


def is_met(figure: str, by_broker: Mapping[str, list[float]]) -> bool:
    own, ours = wanted_of_kwire(figure), by_broker.get("kwire")
    if own is not None and ours and not _holds(statistics.median(ours), own):
        return False
    value, bound = ratio(by_broker), wanted(figure)
    return value is None or bound is None or _holds(value, bound)


def missed(samples: Samples) -> list[str]:
    return [figure for figure, by_broker in samples.items() if not is_met(figure, by_broker)]


def bound_text(figure: str) -> str:
    own, bound = wanted_of_kwire(figure), wanted(figure)
    if own is not None:
        return f"kwire {own[0]} {own[1]:g}"
    return "" if bound is None else f"{bound[0]} {bound[1]:g}"


def cells(figure: str, by_broker: Mapping[str, list[float]], brokers: Sequence[str]) -> list[str]:
    """Return the cells of a row: figure, each broker's median and spread, ratio, bound."""
    value = ratio(by_broker)
    spreads = [spread(by_broker.get(name, [])) for name in brokers]
    return [figure, *spreads, "" if value is None else f"{value:.2f}", bound_text(figure)]


def table(samples: Samples, rounds: int, brokers: Sequence[str]) -> Table:
    shown = Table(title=f"medians of {rounds} alternated rounds [lowest-highest], {platform.platform()}")
    for column in ("figure", *(TITLES[name] for name in brokers), "ratio", "wanted"):
        shown.add_column(column, justify="left" if column == "figure" else "right")
    for figure, by_broker in samples.items():
        shown.add_row(*cells(figure, by_broker, brokers), style="" if is_met(figure, by_broker) else "bold red")
    return shown


def spread(values: list[float]) -> str:
    if not values:
        return ""
    return f"{number(statistics.median(values))} [{number(min(values))}-{number(max(values))}]"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"

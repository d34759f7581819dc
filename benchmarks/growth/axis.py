"""Axes of a growth run: sizes, how each size is measured, which figures may grow, and samples as JSON."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.growth.series import Shape

Samples = dict[str, dict[str, dict[int, list[float]]]]
"""Figure -> broker -> size -> one value per round."""


@dataclass(frozen=True)
class Axis:
    """Kind of element (partitions, groups, ...) and the numbers of it that are measured."""

    name: str
    element: str
    sizes: tuple[int, ...]
    kafka_sizes: tuple[int, ...]
    measure: Callable[[str, int], Mapping[str, float]]
    """(broker, size) -> figures, measured on a fresh broker."""
    linear: tuple[str, ...] = ()
    """Prefixes of the figures that may grow linearly with the number of elements."""
    rounds: int = 3
    """Maximum number of rounds; an axis that takes long has fewer."""

    @property
    def row(self) -> str:
        """Return the row of `make bench` that measures this axis alone."""
        return f"growth-{self.name.split()[0]}"

    def shape(self, figure: str) -> Shape:
        """Return the growth that a figure may have: any for tail percentiles, because a round has too few requests."""
        if figure.startswith(self.linear):
            return Shape.LINEAR
        return Shape.ANY if " p99" in figure else Shape.FLAT

    def up_to(self, largest: int) -> "Axis":
        """Return the same axis without sizes above `largest`; 0 keeps all sizes."""
        return replace(self, sizes=tuple(size for size in self.sizes if not largest or size <= largest))

    def sizes_of(self, broker: str) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if broker != "kafka" or size in self.kafka_sizes)


def no_samples() -> Samples:
    return defaultdict(lambda: defaultdict(lambda: defaultdict(list)))


def order(axes: Iterable[Axis], number: int, brokers: Iterable[str]) -> Iterator[tuple[Axis, int, str]]:
    """Yield (axis, size, broker) for a round: Kafka, and axes with few rounds, are in the first rounds only."""
    names = list(brokers)
    for axis in axes:
        for size in axis.sizes if number % 2 else reversed(axis.sizes):
            for name in names:
                is_due = number <= (1 if name == "kafka" else axis.rounds)
                if is_due and size in axis.sizes_of(name):
                    yield axis, size, name


def to_text(measured: Mapping[str, Samples]) -> str:
    """Return the samples as JSON with one line for each figure."""
    axes = [
        f"{json.dumps(axis)}: {{\n"
        + ",\n".join(f"{json.dumps(figure)}: {json.dumps(by_broker)}" for figure, by_broker in samples.items())
        + "\n}"
        for axis, samples in measured.items()
    ]
    return "{\n" + ",\n".join(axes) + "\n}\n"


def from_text(text: str) -> dict[str, Samples]:
    found: dict[str, Samples] = {}
    for axis, by_figure in json.loads(text).items():
        found[axis] = no_samples()
        for figure, by_broker in by_figure.items():
            for broker, series in by_broker.items():
                for size, values in series.items():
                    found[axis][figure][broker][int(size)] = values
    return found

"""What a growth run varies: the sizes of one axis, how each is measured, and which figures may grow with it."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from benchmarks.growth.series import Shape

Samples = dict[str, dict[str, dict[int, list[float]]]]
"""Figure -> broker -> size -> one value per round."""


@dataclass(frozen=True)
class Axis:
    """One kind of element, and the numbers of it that are measured."""

    name: str
    element: str
    sizes: tuple[int, ...]
    kafka_sizes: tuple[int, ...]
    measure: Callable[[str, int], Mapping[str, float]]
    """(broker, size) -> figures of a fresh broker."""
    linear: tuple[str, ...] = ()
    """How the names begin of figures that may grow with each element."""
    rounds: int = 3
    """At most: one that takes long is measured less often."""

    @property
    def row(self) -> str:
        """The row of `make bench` that measures this axis alone."""
        return f"growth-{self.name.split()[0]}"

    def shape(self, figure: str) -> Shape:
        """Percentiles at the tail are shown and not judged: a round has too few requests for them."""
        if figure.startswith(self.linear):
            return Shape.LINEAR
        return Shape.ANY if " p99" in figure else Shape.FLAT

    def up_to(self, largest: int) -> "Axis":
        """The same axis without the sizes above; 0 keeps all."""
        return replace(self, sizes=tuple(size for size in self.sizes if not largest or size <= largest))

    def sizes_of(self, broker: str) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if broker != "kafka" or size in self.kafka_sizes)


def no_samples() -> Samples:
    return defaultdict(lambda: defaultdict(lambda: defaultdict(list)))

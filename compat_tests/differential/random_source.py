"""Seeded random source, and the small pools of names and numbers from which requests are made.

Pools are small so that requests affect each other: the same topic is created, written, altered and deleted; the same
group is joined, left and committed to. Each pool has existing, missing, boundary and invalid values.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from compat_tests.differential.lazy import Known

T = TypeVar("T")

TOPICS = tuple(f"t{number}" for number in range(10))
LARGEST_NAME = "n" * 249
ODD_TOPICS = (
    "missing",
    "",
    "bad name!",
    ".",
    "..",
    LARGEST_NAME,
    LARGEST_NAME + "n",
    "t.dot",
    "t_dot",
    "gr\u00fc\u00dfe",
)
READ_ONLY_TOPICS = ("__consumer_offsets",)
MISSING_ID = UUID("0badf00d-0000-4000-8000-000000000bad")
NO_ID = UUID(int=0)
INT8, INT16, INT32, INT64 = ((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64))
STEPS_OF_AN_ERA = 400
"""Groups get stuck when members stop sending requests, so group names change after this number of steps."""


class RandomSource(random.Random):
    """Random source of one script. `step` is the number of the step that is being drawn."""

    step = 0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sequences: dict[tuple[int, str, int], int] = {}
        """Next sequence number of each producer in each partition, if all its requests succeed."""

    def often(self, share: float) -> bool:
        return self.random() < share

    def several(self, make: Callable[[], T], most: int = 3, *, least: int = 0) -> list[T]:
        """Return a list of drawn values, mostly with one element."""
        return [make() for _ in range(self.choice((1, 1, 1, 1, 2, most, least)))]

    def one_of(self, *weighted: tuple[float, Any]) -> Any:
        """Return a value, chosen by weight."""
        (value,) = self.choices([value for _, value in weighted], [weight for weight, _ in weighted])
        return value

    def topic(self, *, read_only: bool = False) -> str:
        if self.often(0.88):
            return self.choice(TOPICS)
        return self.choice(ODD_TOPICS + READ_ONLY_TOPICS if read_only else ODD_TOPICS)

    def topic_id(self, name: str) -> Any:
        """Return the current id of the topic with this name; sometimes the id of a deleted topic, or an unknown id."""
        if self.often(0.08):
            return self.choice((MISSING_ID, NO_ID, Known(("topic before", name), MISSING_ID)))
        return Known(("topic", name), MISSING_ID)

    def partition(self) -> int:
        return self.choice((0, 0, 0, 0, 0, 1, 1, 2, 3, 7)) if self.often(0.97) else self.choice((-1, *INT32))

    def offset(self) -> int:
        return self.choice((0, 0, 1, 2, 3, 5, 8, 13, 40)) if self.often(0.9) else self.choice((-1, -2, 10**6, *INT64))

    def leader_epoch(self) -> int:
        return self.choice((-1, -1, -1, -1, 0, 0)) if self.often(0.93) else self.choice((1, 5, 2**31 - 1))

    def group(self) -> str:
        if self.often(0.93):
            return f"g{self.step // STEPS_OF_AN_ERA}-{self.choice((0, 0, 1, 1, 2, 3))}"
        return self.choice(("", "missing", f"g{max(0, self.step // STEPS_OF_AN_ERA - 1)}-0", "grüße", "x" * 300))

    def producer(self) -> int:
        """Return the number of one of the script's producers."""
        return self.randrange(5)

    def pick(self, usual: Sequence[T], odd: Sequence[T], share: float = 0.1) -> T:
        return self.choice(odd) if self.often(share) else self.choice(usual)

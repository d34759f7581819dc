"""Random number generators of a simulation, all derived from one seed by name.

Each part has its own child generator, so that the number of draws of one part does not change those of the others.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

from kwire.seams import SystemRandomSource

T = TypeVar("T")


class SeededRandomSource:
    """Seeded random number generator: a kwire.seams.RandomSource with further draws for simulators."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._random = random.Random(f"kwire/{seed}")  # noqa: S311 must be repeatable; a text seed is hashed by SHA-512
        self._ids = SystemRandomSource(self._random.getrandbits(64))

    @property
    def numbers(self) -> random.Random:
        """Underlying generator of the standard library."""
        return self._random

    def child(self, name: str) -> SeededRandomSource:
        """Return the generator of a part; the same name returns the same generator, whatever else was drawn."""
        return SeededRandomSource(f"{self._seed}/{name}")

    def uuid(self) -> uuid.UUID:
        return self._ids.uuid()

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def exponential(self, mean: float) -> float:
        """Return a positive number with this mean, often small, sometimes many times the mean."""
        return self._random.expovariate(1.0 / mean) if mean > 0 else 0.0

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def below(self, end: int) -> int:
        """Return an integer from 0 to end - 1."""
        return self._random.randrange(end)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return self._random.choice(options)

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """Return `count` different options, in any order."""
        return self._random.sample(list(options), count)

    def bytes(self, size: int) -> bytes:
        """Return `size` random bytes."""
        return self._random.randbytes(size)

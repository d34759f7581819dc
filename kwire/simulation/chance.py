"""One seed, and all randomness of a simulation drawn from it by name.

Each part draws from a child of its own: what one part draws more or less does not change what the others get.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

from kwire.seams import SystemChance

T = TypeVar("T")


class SeededChance:
    """A kwire.seams.Chance, and the draws that a simulator needs besides."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._random = random.Random(f"kwire/{seed}")  # noqa: S311 repeatable is the point; a text is hashed by SHA-512
        self._ids = SystemChance(self._random.getrandbits(64))

    @property
    def numbers(self) -> random.Random:
        """Where the numbers come from."""
        return self._random

    def child(self, name: str) -> SeededChance:
        """The chance of a part; the same name gives the same one, whatever else was drawn."""
        return SeededChance(f"{self._seed}/{name}")

    def uuid(self) -> uuid.UUID:
        return self._ids.uuid()

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def exponential(self, mean: float) -> float:
        """A positive number, often small, now and then many times the mean."""
        return self._random.expovariate(1.0 / mean) if mean > 0 else 0.0

    def happens(self, probability: float) -> bool:
        """True in so many of 1 cases."""
        return self._random.random() < probability

    def below(self, end: int) -> int:
        """A whole number from 0 to end - 1."""
        return self._random.randrange(end)

    def pick(self, options: Sequence[T]) -> T:
        """One of them."""
        return self._random.choice(options)

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """So many different ones, in any order."""
        return self._random.sample(list(options), count)

    def bytes(self, size: int) -> bytes:
        """That many random bytes."""
        return self._random.randbytes(size)

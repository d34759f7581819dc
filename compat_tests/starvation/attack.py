"""One row of the table of attacks, and how many elements its lists have."""

from collections.abc import Callable
from dataclasses import dataclass

from kwire.protocol.decoder_source import ELEMENTS_MAX

MANY = ELEMENTS_MAX - 1000
"""Elements of the longest lists: as many as kwire accepts, and room for the lists around them."""
SOME = 30_000
"""Elements of lists whose elements are lists themselves: three of kwire's elements each."""
UNKNOWN = tuple(f"unknown-{number:05}" for number in range(MANY))
"""Names of nothing that exists."""
TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Attack:
    """What is sent. `make` returns (request, version) pairs for a scene."""

    name: str
    make: Callable
    is_short: bool = False
    """Part of the short form."""

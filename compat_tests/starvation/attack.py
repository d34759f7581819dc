"""One row of the table of attacks, and how many elements its lists have."""

from collections.abc import Callable
from dataclasses import dataclass

from kwire.protocol.schema import ELEMENTS_MAX, schema_of

MANY = ELEMENTS_MAX - 1000
"""Elements of the longest lists: as many as kwire accepts, and room for the lists around them."""
SOME = 30_000
"""Elements of lists whose elements are lists themselves: three of kwire's elements each."""
UNKNOWN = tuple(f"unknown-{number:05}" for number in range(MANY))
"""Names of nothing that exists."""
TIMEOUT_MS = 30_000
SMALL, SECURITY = "Requests that are small in every case", "Requests about security, which is off"
"""Cases of the row that several APIs make together."""


def most_of(request):
    """The elements of the longest list that kwire accepts in requests of this class."""
    return min(MANY, schema_of(request).elements_max - 10)


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of requests; `make` returns (request, version) pairs for a scene."""

    name: str
    make: Callable
    is_short: bool = False
    """Part of the short form."""
    together: str = ""
    """Attacks with the same name here make one case of the row: their requests take turns."""


def in_turns(name, attacks):
    """One attack out of several."""
    return Attack(name, lambda scene: [pair for each in attacks for pair in each.make(scene)])

"""Row of the table of attacks, and the number of elements in its lists."""

from collections.abc import Callable
from dataclasses import dataclass

from kwire.protocol.schema import ELEMENTS_MAX, schema_of

MANY = ELEMENTS_MAX - 1000
"""Elements of the longest lists: as many as kwire accepts, minus room for the lists around them."""
SOME = 30_000
"""Elements of lists whose elements are lists, too: each is three of kwire's elements."""
UNKNOWN = tuple(f"unknown-{number:05}" for number in range(MANY))
"""Names that do not exist."""
TIMEOUT_MS = 30_000
SMALL, SECURITY = "Requests that are small in every case", "Requests about security, which is off"
"""Cases of the row that combine several APIs."""


def most_of(request):
    """Return the element count of the longest list that kwire accepts in requests of this class."""
    return min(MANY, schema_of(request).elements_max - 10)


@dataclass(frozen=True, slots=True)
class Attack:
    """Kind of attack; `make` returns (request, version) pairs for a scene."""

    name: str
    make: Callable
    is_short: bool = False
    """True if the short form includes the attack."""
    together: str = ""
    """Name of a combined case: attacks with the same name run in one case, and their requests take turns."""


def in_turns(name, attacks):
    """Combine several attacks into one."""
    return Attack(name, lambda scene: [pair for each in attacks for pair in each.make(scene)])

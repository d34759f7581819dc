"""Events of one share group, as its clients see them; share_checker.py finds the anomalies of a history of them.

Times are seconds of virtual time. A broker serves a request at some moment between `invoked` and `completed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

NEVER: Final = float("inf")
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
"""Outcomes of acknowledgements: stored; rejected without an effect; unknown."""
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
"""Types of acknowledgements, with their numbers in requests."""


class Lease(NamedTuple):
    """Time for which one process keeps one state of a share partition, as its leader."""

    leader_epoch: int
    process: int = 0
    load: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Event of one share partition."""

    partition: int = 0
    invoked: float
    completed: float = NEVER
    """NEVER if there was no response: the request may have an effect at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    """Records whose append was acknowledged to a producer."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Event):
    """Range of acquired records in the response of a share fetch."""

    session: str
    """Name of a member's share session. A member has another one after each lost connection."""
    first: int
    last: int
    count: int
    """Delivery count."""
    lease: Lease | None
    """Lease in which the broker served the request; None if it may have changed meanwhile."""
    leader_epoch: int | None
    """The broker's leader epoch when the request was sent; None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered(Event):
    """Share fetch without a response, which may have acquired any records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged(Event):
    """Acknowledgement of a range."""

    session: str
    first: int
    last: int
    kind: int
    outcome: str
    lease: Lease | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive(Event):
    """Response in a share session: the session existed after `invoked`. It concerns all partitions."""

    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Event):
    """Start offset of the share partition, as the group's coordinator or the leader returned it."""

    offset: int

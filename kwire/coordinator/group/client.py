"""Client of a request that concerns the membership of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Client that sends a request of a group's member."""

    client_id: str
    host: str
    allows_topic: Callable[[str], bool]
    """Returns True if the client may describe a topic."""

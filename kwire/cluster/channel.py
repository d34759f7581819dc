"""Channel to other nodes, as the quorum, replication and brokers use it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Destination(NamedTuple):
    """Node to send to. A bootstrap server, whose node id is not known, has an id of -2 or below."""

    node_id: int
    host: str
    port: int


class Unreachable(Exception):  # noqa: N818 named after the state of the other node
    """Another node will not answer a request."""


class Channel(Protocol):
    """Connection to other nodes."""

    async def send(self, destination: Destination, request: Any) -> Any:
        """Send a request and return the response. Raises Unreachable if there will be none."""

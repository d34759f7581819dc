"""Ports for the nodes of a cluster on one machine: which are free, and which of those wanted are not."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack

from kwire.server.network.addresses import shown_address


def free_ports(host: str, count: int) -> tuple[int, ...]:
    """So many different ports that nobody listens on."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((host, 0))) for _ in range(count)]
        return tuple(each.getsockname()[1] for each in sockets)


def taken_addresses(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """host:port of those that cannot be listened on now."""
    return [shown_address(host, port) for host, port in addresses if port and not _is_free(host, port)]


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # As a node listens: what waits out a connection that was closed is no obstacle.
        with socket.create_server((host, port), family=family):
            return True
    except OSError:
        return False

"""Ports for the nodes of a cluster on one machine: free ones, and checks that ports are free."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack

from kwire.server.network.outgoing.addresses import shown_address


def free_ports(host: str, count: int) -> tuple[int, ...]:
    """Return so many different free ports."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((host, 0))) for _ in range(count)]
        return tuple(each.getsockname()[1] for each in sockets)


def taken_addresses(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """Return host:port of the addresses that cannot be bound now."""
    return [shown_address(host, port) for host, port in addresses if port and not _is_free(host, port)]


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # With the same options as a node: a closed connection in TIME_WAIT does not prevent it.
        with socket.create_server((host, port), family=family):
            return True
    except OSError:
        return False

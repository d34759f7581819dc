"""Free loopback ports for broker processes that must keep their port over a restart."""

import socket

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return free ports. All sockets stay open until every port is known, so that the ports differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()

"""What connections may take of the broker: how many, how fast, how large. Altered in place while the broker runs."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.log.disk import open_files_default
from kwire.server.network.addresses import AddressBook
from kwire.server.settings.setting_rules import connection_overrides

UNLIMITED = 2**31 - 1
PIPELINE_DEPTH_MAX = 64
"""Answers that may wait in one connection; a client with more requests in flight waits for the first of them."""
QUEUED_FRAMES_MAX = 64
"""Whole frames that may wait in one connection before it stops reading."""
LINE_BYTES_MAX = 64 * 1024
"""Bytes of requests behind one that is not answered yet, before the connection stops reading."""
LONG_REQUEST_BYTES = 8 * 1024
"""A longer request may have many elements: it is read, and answered, in pieces."""
RESERVED_DESCRIPTORS = 64
"""Neither segments nor connections: checkpoints, listeners, the compacting process."""


@dataclass(slots=True, kw_only=True)
class ConnectionLimits:
    """Names are those of the broker's settings."""

    request_bytes_max: int
    """socket.request.max.bytes."""
    connections_max: int
    """max.connections, over all listeners; never so many that there is no descriptor left to open a file."""
    connections_max_per_ip: int
    """max.connections.per.ip."""
    idle_ms_max: int
    """connections.max.idle.ms; negative is never."""
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides, by address."""
    created_per_second_max: int = UNLIMITED
    """max.connection.creation.rate."""
    backlog: int = 4096
    """socket.listen.backlog.size. Kafka's 50 makes a burst of connections wait for SYN retries; the kernel caps this
    at net.core.somaxconn."""
    send_buffer_bytes: int = -1
    """socket.send.buffer.bytes; -1 leaves it to the system, whose own tuning does better than Kafka's 102400."""
    receive_buffer_bytes: int = -1
    """socket.receive.buffer.bytes; -1 leaves it to the system."""
    output_buffer_bytes: int = 256 * 1024
    """Unsent bytes above which a connection's next request waits, and which are counted in output_bytes_max."""
    output_bytes_max: int = 64 * 1024 * 1024
    """Unsent bytes over all connections: what they may be besides is one answer, and output_buffer_bytes for each."""
    refused_ms: Callable[[str], int] = lambda host: 0  # noqa: ARG005
    """Told of each new connection's address: 0, or after how long the connection is closed unserved (KIP-612)."""
    _overrides: Mapping[str, int] = field(default_factory=dict)
    """The same as it was set, by host."""
    _addresses: AddressBook = field(default_factory=AddressBook)
    _next_place: float = 0.0
    """When the next connection would be due, were they made at the highest rate without a pause."""

    def update(self, settings: Mapping[str, Any]) -> None:
        """Take over what the settings say now."""
        self.connections_max = min(settings["max.connections"], _descriptors_for_connections())
        self.connections_max_per_ip = settings["max.connections.per.ip"]
        overrides = connection_overrides(settings["max.connections.per.ip.overrides"])
        if overrides != self._overrides:
            self._overrides = overrides
            self._addresses.look_up(overrides, self._place_overrides)
            self._place_overrides()
        self.created_per_second_max = settings["max.connection.creation.rate"]

    def _place_overrides(self) -> None:
        self.per_ip_overrides = {self._addresses.find(host): count for host, count in self._overrides.items()}

    def max_from(self, host: str) -> int:
        """Connections that an address may have."""
        return self.per_ip_overrides.get(host, self.connections_max_per_ip)

    def delay_ms(self, now: float) -> int:
        """How long a connection that is made now has to wait for its turn. A second's worth may come at once.

        A rate of 0 lets one in each second, as Kafka's does, which makes nobody wait for longer.
        """
        rate = self.created_per_second_max
        if rate == UNLIMITED:
            return 0
        self._next_place = max(self._next_place, now) + 1.0 / max(1, rate)
        return max(0, round((self._next_place - now - 1.0) * 1000))

    def prepare(self, sockets: Iterable[Any]) -> None:
        """Give listening sockets the buffers that their connections will have."""
        wanted = ((socket.SO_SNDBUF, self.send_buffer_bytes), (socket.SO_RCVBUF, self.receive_buffer_bytes))
        options = [(option, size) for option, size in wanted if size > 0]
        for each in sockets if options else ():
            with socket.socket(fileno=os.dup(each.fileno())) as listening:
                for option, size in options:
                    listening.setsockopt(socket.SOL_SOCKET, option, size)


def _descriptors_for_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, soft - open_files_default() - RESERVED_DESCRIPTORS) if soft > 0 else UNLIMITED


def limits_of(settings: Mapping[str, Any]) -> ConnectionLimits:
    """The limits that the settings ask for."""
    limits = ConnectionLimits(
        request_bytes_max=settings["socket.request.max.bytes"],
        connections_max=settings["max.connections"],
        connections_max_per_ip=settings["max.connections.per.ip"],
        idle_ms_max=settings["connections.max.idle.ms"],
        backlog=settings["socket.listen.backlog.size"],
        send_buffer_bytes=settings["socket.send.buffer.bytes"],
        receive_buffer_bytes=settings["socket.receive.buffer.bytes"],
    )
    limits.update(settings)
    return limits

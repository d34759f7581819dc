"""Limits of connections: number, creation rate, sizes. They can be altered while the broker runs."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.cluster.configs.settings import setting
from kwire.log.disk import open_files_default
from kwire.server.network.outgoing.addresses import AddressBook
from kwire.server.settings.listener_values import values_of_listener
from kwire.server.settings.setting_rules import connection_overrides

CONNECTIONS = "max.connections"
CREATION_RATE = "max.connection.creation.rate"
"""Settings that a listener may have for itself, with its prefix."""
UNLIMITED = 2**31 - 1
PIPELINE_DEPTH_MAX = 64
"""Maximum responses that wait in one connection; further requests are served after the first response is sent."""
QUEUED_FRAMES_MAX = 64
"""Whole frames that may wait in one connection before it stops reading."""
BLOCKED_BYTES_MAX = 64 * 1024
"""Maximum bytes of requests that wait behind a blocking request; above it the connection is not read."""
LONG_REQUEST_BYTES = 8 * 1024
"""A longer request may have many elements: it is read, and answered, in pieces."""
HANDSHAKES_MAX = 1000
"""TLS handshakes of a listener at the same time. Above it, the oldest one ends: a client needs milliseconds for one."""
HANDSHAKES_PER_HOST_MAX = 100
"""TLS handshakes of one address on a listener at the same time. Above it, new connections are closed."""
RESERVED_DESCRIPTORS = 64
"""File descriptors that are reserved for checkpoints, listeners and the compaction process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Settings of listeners and their connections."""

    request_bytes_max: int = setting("socket.request.max.bytes")
    queued_bytes_max: int = setting("queued.max.request.bytes")
    connections_max: int = setting(CONNECTIONS)
    connections_max_per_ip: int = setting("max.connections.per.ip")
    overrides_per_ip: str = setting("max.connections.per.ip.overrides")
    created_per_second_max: int = setting(CREATION_RATE)
    idle_ms_max: int = setting("connections.max.idle.ms")
    backlog: int = setting("socket.listen.backlog.size")
    send_buffer_bytes: int = setting("socket.send.buffer.bytes")
    receive_buffer_bytes: int = setting("socket.receive.buffer.bytes")


def rejects_none(_: str) -> int:
    """Return 0 for every address: no quota rejects connections."""
    return 0


@dataclass(slots=True)
class CreationRate:
    """Maximum rate of new connections, which are delayed above it. The connections of one second may arrive at once."""

    per_second_max: int = UNLIMITED
    _next_due: float = 0.0
    """Time at which the next connection is due if connections arrive at the highest rate, without a burst."""

    def delay_ms(self, now: float) -> int:
        """Return how long a new connection has to wait.

        As in Kafka, a rate of 0 still admits one connection per second, so that no connection waits longer.
        """
        rate = self.per_second_max
        if rate == UNLIMITED:
            return 0
        self._next_due = max(self._next_due, now) + 1.0 / max(1, rate)
        return max(0, round((self._next_due - now - 1.0) * 1000))


@dataclass(slots=True)
class ListenerLimits:
    """Limits of one listener: settings with its prefix. Without them its connections count for the broker only."""

    connections_max: int = UNLIMITED
    """The setting listener.name.NAME.max.connections."""
    rate: CreationRate = field(default_factory=CreationRate)
    """The setting listener.name.NAME.max.connection.creation.rate."""

    def update(self, name: str, texts: Mapping[str, str]) -> None:
        """Apply the current settings; `texts` are those with a prefix, and others."""
        values = values_of_listener(name, texts, dict.fromkeys((CONNECTIONS, CREATION_RATE), UNLIMITED))
        self.connections_max = values[CONNECTIONS]
        self.rate.per_second_max = values[CREATION_RATE]


@dataclass(slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of connections, by settings of the broker."""

    request_bytes_max: int
    """The setting socket.request.max.bytes."""
    connections_max: int
    """The setting max.connections, over all listeners; lowered so that file descriptors are left to open files."""
    connections_max_per_ip: int
    """The setting max.connections.per.ip."""
    idle_ms_max: int
    """The setting connections.max.idle.ms; negative for never."""
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """The setting max.connections.per.ip.overrides, by address."""
    rate: CreationRate = field(default_factory=CreationRate)
    """The setting max.connection.creation.rate."""
    backlog: int = 4096
    """The setting socket.listen.backlog.size.

    With Kafka's 50, a burst of connections waits for SYN retries. The kernel limits this to net.core.somaxconn.
    """
    send_buffer_bytes: int = -1
    """The setting socket.send.buffer.bytes; -1 for the system's automatic size, which is faster than Kafka's 102400."""
    receive_buffer_bytes: int = -1
    """The setting socket.receive.buffer.bytes; -1 for the system's automatic size."""
    output_buffer_bytes: int = 256 * 1024
    """Unsent bytes above which a connection's next request waits, and which count towards output_bytes_max."""
    output_bytes_max: int = 64 * 1024 * 1024
    """Unsent bytes over all connections. In addition there may be one response, and output_buffer_bytes each."""
    rejected_ms: Callable[[str], int] = rejects_none
    """Function of a new connection's address: milliseconds until it is closed unserved, 0 to serve it (KIP-612)."""
    _overrides: Mapping[str, int] = field(default_factory=dict)
    """Value of max.connections.per.ip.overrides: limit by host name or address."""
    _addresses: AddressBook = field(default_factory=AddressBook)
    _of_listeners: dict[str, ListenerLimits] = field(default_factory=dict)

    def of_listener(self, name: str) -> ListenerLimits:
        """Return the limits of a listener's own connections."""
        return self._of_listeners.setdefault(name, ListenerLimits())

    def update_listeners(self, texts: Mapping[str, str]) -> None:
        """Apply the current settings with a listener's prefix. Raises ConfigError."""
        for name, limits in self._of_listeners.items():
            limits.update(name, texts)

    def update(self, settings: ListenerSettings) -> None:
        """Apply the current settings."""
        self.connections_max = min(settings.connections_max, _descriptors_for_connections())
        self.connections_max_per_ip = settings.connections_max_per_ip
        overrides = connection_overrides(settings.overrides_per_ip)
        if overrides != self._overrides:
            self._overrides = overrides
            self._addresses.resolve(overrides, self._place_overrides)
            self._place_overrides()
        self.rate.per_second_max = settings.created_per_second_max

    def _place_overrides(self) -> None:
        self.per_ip_overrides = {self._addresses.find(host): count for host, count in self._overrides.items()}

    def max_from(self, host: str) -> int:
        """Return the number of connections that an address may have."""
        return self.per_ip_overrides.get(host, self.connections_max_per_ip)

    def prepare(self, sockets: Iterable[Any]) -> None:
        """Set the buffer sizes of listening sockets, which their connections inherit."""
        sizes = ((socket.SO_SNDBUF, self.send_buffer_bytes), (socket.SO_RCVBUF, self.receive_buffer_bytes))
        options = [(option, size) for option, size in sizes if size > 0]
        for each in sockets if options else ():
            with socket.socket(fileno=os.dup(each.fileno())) as listening:
                for option, size in options:
                    listening.setsockopt(socket.SOL_SOCKET, option, size)


def _descriptors_for_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, soft - open_files_default() - RESERVED_DESCRIPTORS) if soft > 0 else UNLIMITED


def limits_of(settings: ListenerSettings, rejected_ms: Callable[[str], int] = rejects_none) -> ConnectionLimits:
    """Return the limits of the settings, and of connection quotas."""
    limits = ConnectionLimits(
        request_bytes_max=settings.request_bytes_max,
        connections_max=settings.connections_max,
        connections_max_per_ip=settings.connections_max_per_ip,
        idle_ms_max=settings.idle_ms_max,
        backlog=settings.backlog,
        send_buffer_bytes=settings.send_buffer_bytes,
        receive_buffer_bytes=settings.receive_buffer_bytes,
        rejected_ms=rejected_ms,
    )
    limits.update(settings)
    return limits

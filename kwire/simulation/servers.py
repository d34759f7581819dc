"""Listening sockets of simulated hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kwire.simulation.streams import StreamTransport

if TYPE_CHECKING:
    from kwire.simulation.hosts import Host, HostLoop


class ServerSocket:
    """Replacement of a listening socket for programs."""

    def __init__(self, address: str, port: int) -> None:
        self._name = (address, port)

    def fileno(self) -> int:
        return -1

    def getsockname(self) -> tuple[str, int]:
        return self._name


class Server(asyncio.AbstractServer):
    """Port of a host that a process listens on."""

    def __init__(self, loop: HostLoop, factory: Callable[[], asyncio.BaseProtocol], port: int) -> None:
        self.loop = loop
        self.host: Host = loop.host
        self.port = port
        self._factory = factory
        self._is_serving = False
        self.sockets: tuple[ServerSocket, ...] = (ServerSocket(self.host.address, port),)

    def accept(self, transport: StreamTransport) -> None:
        """Accept a connection after the handshake, if the process still runs."""
        if not self.loop.is_closed():
            self.loop.call_soon(self._accept, transport)

    def _accept(self, transport: StreamTransport) -> None:
        if self._is_serving:
            transport.start(self._factory())
        else:
            transport.lose()

    def close(self) -> None:
        self._is_serving = False
        self.host.network.unbind(self)
        self.loop.servers.pop(self, None)
        self.sockets = ()

    def get_loop(self) -> Any:
        return self.loop

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        self._is_serving = True

    async def serve_forever(self) -> None:
        self._is_serving = True
        await self.loop.create_future()

    async def wait_closed(self) -> None:
        """Return at once: connections stay open."""

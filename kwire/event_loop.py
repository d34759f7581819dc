"""Event loop of the broker: uvloop if it is installed, otherwise asyncio's own.

uvloop resolves addresses in libuv's thread pool. If a process forks while such threads exist, its child cannot exit:
libuv joins threads that do not exist there (signal 11). Addresses are therefore resolved by Python, and uvloop receives
sockets.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from kwire.worker_threads import WorkerThreads

HAS_UVLOOP = find_spec("uvloop") is not None
"""True if uvloop is installed; it is not available on every platform (pyproject.toml)."""
if HAS_UVLOOP:
    import uvloop

T = TypeVar("T")
AddressInfo = tuple[Any, Any, int, str, Any]

_RESOLVERS = WorkerThreads(4, "kwire-resolver")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a new loop and close the loop."""
    if not HAS_UVLOOP:
        return asyncio.run(work)
    return uvloop.run(work, loop_factory=_ForkableLoop)


async def resolve(host: str | None, port: int, *, flags: int = 0) -> Sequence[AddressInfo]:
    """Return the addresses of a host, numeric ones without a thread. Raises OSError or UnicodeError."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags | socket.AI_NUMERICHOST)
    except socket.gaierror:
        call = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=flags)
        return await asyncio.get_running_loop().run_in_executor(_RESOLVERS, call)


if HAS_UVLOOP:

    class _ForkableLoop(uvloop.Loop):
        """uvloop's loop without libuv's thread pool."""

        async def getaddrinfo(
            self,
            host: Any,
            port: Any,
            *,
            family: int = 0,
            type: int = 0,  # noqa: A002 asyncio's name
            proto: int = 0,
            flags: int = 0,
        ) -> list[AddressInfo]:
            """Resolve a host by Python, in the threads of _RESOLVERS. Raises OSError or UnicodeError."""
            return await self.run_in_executor(_RESOLVERS, socket.getaddrinfo, host, port, family, type, proto, flags)

        async def create_server(  # type: ignore[override] # what kwire passes
            self,
            protocol_factory: Callable[[], asyncio.BaseProtocol],
            host: str | None,
            port: int,
            **more: Any,
        ) -> Any:
            """Listen on every address of a host. Raises OSError."""
            servers: list[Any] = []
            infos = dict.fromkeys(await resolve(host, port, flags=socket.AI_PASSIVE))
            try:
                for info in infos:
                    server = await super().create_server(protocol_factory, sock=_listening(info), **more)
                    servers.append(server)
            except BaseException:
                for server in servers:
                    server.close()
                raise
            return servers[0] if len(servers) == 1 else _Servers(servers)

        async def create_connection(  # type: ignore[override] # what kwire passes
            self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **more: Any
        ) -> Any:
            """Connect to the first address of a host that accepts a connection. Raises OSError or UnicodeError."""
            problem: OSError = OSError(f"{host} has no address")
            for family, kind, protocol, _, address in await resolve(host, port):
                connecting = socket.socket(family, kind, protocol)
                connecting.setblocking(False)
                try:
                    await self.sock_connect(connecting, address)
                    return await super().create_connection(protocol_factory, sock=connecting, **more)
                except OSError as error:
                    connecting.close()
                    problem = error
                except BaseException:
                    connecting.close()
                    raise
            try:
                raise problem
            finally:
                del problem  # its traceback refers to this frame

    class _Servers:
        """Servers on the addresses of one host, used in place of one asyncio.Server."""

        def __init__(self, servers: Sequence[Any]) -> None:
            self._servers = servers
            self.sockets = [each for server in servers for each in server.sockets]

        def close(self) -> None:
            for server in self._servers:
                server.close()

        async def start_serving(self) -> None:
            for server in self._servers:
                await server.start_serving()

        async def wait_closed(self) -> None:
            for server in self._servers:
                await server.wait_closed()


def _listening(info: AddressInfo) -> socket.socket:
    """Return a socket that is bound to an address, with asyncio's options. Raises OSError."""
    family, kind, protocol, _, address = info
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix" and sys.platform != "cygwin":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, True)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"error while attempting to bind on address {address}: {error.strerror}") from None
    except BaseException:
        bound.close()
        raise
    bound.setblocking(False)
    return bound

"""Network between hosts: names, addresses, ports, connections, and network faults.

Links are directed: `cut("a", "b")` blocks packets from a to b. Each block of a link has a reason, so that several
faults may overlap; `heal` removes all blocks of one reason.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kwire.simulation.links import Link, Speed
from kwire.simulation.random_source import SeededRandomSource
from kwire.simulation.streams import Direction, StreamTransport, fingerprint
from kwire.simulation.timeline import Timeline

if TYPE_CHECKING:
    from kwire.simulation.hosts import Host, HostLoop
    from kwire.simulation.loop import ProcessLoop
    from kwire.simulation.servers import Server

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
LOOPBACK = Speed(least_ms=0.02, mean_ms=0.0)
FIRST_PORT = 32768
CONNECT_RETRIES = (1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0)
"""Times of TCP's connection attempts after the first; it gives up after the last."""

Ends = tuple[StreamTransport, StreamTransport]


class Network:
    """Network of a simulation, see the module."""

    def __init__(
        self, timeline: Timeline, random_source: SeededRandomSource, note: Callable[[str], None], kernel: ProcessLoop
    ) -> None:
        self.timeline = timeline
        self.hosts: dict[str, Host] = {}
        self.speed = Speed()
        """Speed of links without a speed of their own."""
        self.give_up_seconds = 120.0
        """Time without acknowledgement after which a connection breaks; Linux takes up to 15 minutes."""
        self._random_source = random_source
        self._note = note
        self._kernel = kernel
        """Loop for events outside of processes: packets that travel."""
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[tuple[str, int], Server] = {}
        self._ports: dict[str, int] = {}
        self._connections: dict[Ends, tuple[str, str]] = {}

    # --- for connections

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call a function at a time of the timeline."""
        self._kernel.call_at(when, call)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after so many seconds."""
        self._kernel.call_later(seconds, call)

    def note_delivery(self, direction: Direction, item: bytes | None) -> None:
        """Add the arrival of a packet to the trace."""
        sender, receiver = direction.sender.name, direction.receiver.name
        self._note(f"{sender}>{receiver} {fingerprint(item)}")

    # --- hosts

    def link(self, source: str, target: str) -> Link:
        """Return the link from one host to another."""
        key = (source, target)
        found = self._links.get(key)
        if found is None:
            random_source = self._random_source.child(f"{source}>{target}")
            found = self._links[key] = Link(random_source, LOOPBACK if source == target else self.speed)
        return found

    def find(self, name: str, *, seen_from: str) -> Host | None:
        """Return the host with this name or address."""
        if name in LOCAL_HOSTS:
            return self.hosts[seen_from]
        if name in self.hosts:
            return self.hosts[name]
        return next((host for host in self.hosts.values() if host.address == name), None)

    def free_port(self, host: str) -> int:
        """Return an unused port."""
        self._ports[host] = self._ports.get(host, FIRST_PORT - 1) + 1
        return self._ports[host]

    # --- servers

    def bind(self, server: Server) -> None:
        """Bind a server to its address. Raises OSError."""
        key = (server.host.name, server.port)
        if key in self._servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._servers[key] = server

    def unbind(self, server: Server) -> None:
        """Release the address of a server."""
        if self._servers.get((server.host.name, server.port)) is server:
            del self._servers[(server.host.name, server.port)]

    # --- connecting

    async def connect(self, loop: HostLoop, host: str, port: int) -> StreamTransport:
        """Return an established connection, whose protocol is not started."""
        source = loop.host
        target = self.find(host, seen_from=source.name)
        if target is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        started = loop.time()
        for retry in CONNECT_RETRIES:
            transport = await self._try(loop, source, target, port)
            if transport is not None:
                return transport
            await asyncio.sleep(max(0.0, started + retry - loop.time()))
        raise TimeoutError(errno.ETIMEDOUT, f"Connect call failed {(target.address, port)}")

    async def _try(self, loop: HostLoop, source: Host, target: Host, port: int) -> StreamTransport | None:
        """Try one handshake; return None if one of its packets is lost."""
        there, back = self.link(source.name, target.name), self.link(target.name, source.name)
        await asyncio.sleep(there.seconds(0))
        if not there.is_open or not target.is_on:
            return None
        server = self._servers.get((target.name, port))
        await asyncio.sleep(back.seconds(0))
        if not back.is_open:
            return None
        if server is None or not server.is_serving() or not target.is_on:
            self._note(f"{source.name}>{target.name}:{port} rejected")
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {(target.address, port)}")
        return self._establish(loop, server, there, back)

    def _establish(self, loop: HostLoop, server: Server, there: Link, back: Link) -> StreamTransport:
        source, target = loop.host, server.host
        here = (source.address, self.free_port(source.name))
        peer = (target.address, server.port)
        outgoing, incoming = Direction(self, there, back), Direction(self, back, there)
        client = StreamTransport(loop, outgoing, sockname=here, peername=peer)
        served = StreamTransport(server.loop, incoming, sockname=peer, peername=here)
        client.incoming, served.incoming = incoming, outgoing
        client.name, served.name = f"{source.name}:{here[1]}", f"{target.name}:{peer[1]}"
        outgoing.sender, outgoing.receiver = client, served
        incoming.sender, incoming.receiver = served, client
        loop.transports[client] = None
        server.loop.transports[served] = None
        self._note(f"{client.name}>{served.name} connected")
        self.later(there.seconds(0), lambda: server.accept(served))
        return client

    # --- faults

    def _between(self, some: Iterable[str], others: Iterable[str] | None) -> list[Link]:
        names = sorted(some)
        rest = sorted(set(self.hosts) - set(names)) if others is None else sorted(others)
        return [self.link(source, target) for source in names for target in rest if source != target]

    def cut(self, source: str, target: str, *, reason: str = "cut") -> None:
        """Block packets from source to target; the other direction stays as it is."""
        self._note(f"cut {source}>{target}")
        self.link(source, target).block(reason)

    def split(self, some: Sequence[str], others: Sequence[str] | None = None, *, reason: str = "cut") -> None:
        """Block both directions between two groups of hosts, or between one group and all others."""
        self._note(f"split {','.join(some)} from {','.join(others) if others else 'all others'}")
        rest = [name for name in self.hosts if name not in some] if others is None else others
        for link in [*self._between(some, rest), *self._between(rest, some)]:
            link.block(reason)

    def isolate(self, host: str, *, reason: str = "cut") -> None:
        """Block a host from and to all others."""
        self.split([host], reason=reason)

    def heal(self, *, reason: str = "cut") -> None:
        """Remove all blocks for this reason."""
        self._note(f"heal {reason}")
        for key in sorted(self._links):
            self._links[key].unblock(reason)

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Delay packets from source to target for a while."""
        reason = f"clog {self.timeline.now}"
        self._note(f"clog {source}>{target} for {seconds:.3f}")
        link = self.link(source, target)
        link.block(reason)
        self.later(seconds, lambda: link.unblock(reason))

    def slow_down(self, source: str, target: str, speed: Speed | None) -> None:
        """Set the speed of a link; None sets the default speed."""
        self._note(f"speed {source}>{target}")
        self.link(source, target).speed = speed or self.speed

    def reset(self, one: str, other: str) -> int:
        """Break all connections between two hosts, as a router may; return their number."""
        self._note(f"reset {one}-{other}")
        count = 0
        for name, peer in ((one, other), (other, one)):
            process = self.hosts[name].process
            for transport in list(process.loop.transports) if process is not None else ():
                if transport.peer_host == self.hosts[peer].address:
                    transport.break_down(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
                    count += 1
        return count // 2


def address_info(address: str, port: Any) -> list[tuple[Any, ...]]:
    """Return the result of getaddrinfo for an address."""
    number = int(port) if port else 0
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, number))]

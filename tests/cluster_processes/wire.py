"""Proxy in front of each broker that delays, reorders and holds chosen requests, of clients and of other brokers.

The proxy is in the broker's own network namespace, where connections to the broker's ports are redirected to it.
Brokers and clients use the broker's own address, and network cuts by address still work. A connection keeps its order,
as in TCP, so requests after a delayed one wait as well. Requests of different connections overtake each other. If a
client disconnects, its sent requests still reach the broker later.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.cluster_processes.brokers import CLIENT_PORT, BrokerNode
from tests.cluster_processes.network import Network
from tests.cluster_processes.nodes import PORT
from tests.history.journal import Journal
from tests.history.operations import OK

BEHIND = 10_000
"""Difference between a port of the broker and the proxy's port."""
ANSWER_SECONDS = 5.0
"""Maximum wait for a response whose client has disconnected."""
READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Rule that selects requests, with their delay."""

    api_keys: frozenset[int] = frozenset()
    """API keys; an empty set means all."""
    share: float = 1.0
    seconds: tuple[float, float] = (0.0, 0.2)
    is_hold: bool = False
    """True if the history must record the delay: the client times out, and repeats a request still in flight."""


@dataclass(slots=True)
class Wires:
    """Proxies of all brokers, and their current rules."""

    network: Network
    nodes: Mapping[int, BrokerNode]
    journal: Journal
    random_source: random.Random
    rules: tuple[Rule, ...] = ()
    held: Counter[int] = field(default_factory=Counter)
    """Number of held requests by API key."""
    _all: list[Wire] = field(default_factory=list)

    def start(self) -> None:
        for node_id, node in self.nodes.items():
            ports = (CLIENT_PORT, PORT) if node.is_controller else (CLIENT_PORT,)
            self._all.append(Wire(self, node_id, ports))
            for port in ports:
                self.network.redirect(node_id, port, port + BEHIND)

    def clear(self) -> None:
        """Remove all rules; requests that wait already continue at their time."""
        self.rules = ()

    def wait_of(self, api_key: int) -> tuple[float, bool]:
        """Return the delay of a request, and whether it is a hold."""
        for rule in self.rules:
            if (not rule.api_keys or api_key in rule.api_keys) and self.random_source.random() < rule.share:
                return self.random_source.uniform(*rule.seconds), rule.is_hold
        return 0.0, False

    def close(self) -> None:
        for wire in self._all:
            wire.close()


class Wire:
    """Proxy of one broker, in a thread with sockets in the broker's namespace."""

    def __init__(self, wires: Wires, node_id: int, ports: tuple[int, ...]) -> None:
        self._wires = wires
        self._node_id = node_id
        self._ports = ports
        self._host = wires.network.address(node_id)
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_serving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._is_serving.wait(10.0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        with self._wires.network.inside(self._node_id):
            self._loop.run_until_complete(self._listen())
            self._is_serving.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._cancel())

    async def _listen(self) -> None:
        for port in self._ports:
            serve = partial(self._serve, port)
            self._servers.append(await asyncio.start_server(serve, self._host, port + BEHIND))

    async def _cancel(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports close their sockets in the next turn

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                to_reader, to_writer = await asyncio.open_connection(self._host, port)
                try:
                    await self._carry(reader, writer, to_reader, to_writer)
                finally:
                    to_writer.transport.abort()
            finally:
                writer.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to_reader: asyncio.StreamReader,
        to_writer: asyncio.StreamWriter,
    ) -> None:
        """Forward data until the broker closes, or all requests of a disconnected client were forwarded and have
        responses.
        """
        answers = asyncio.ensure_future(_answers(to_reader, writer))
        requests = asyncio.ensure_future(self._requests(reader, to_writer))
        try:
            await asyncio.wait({answers, requests}, return_when=asyncio.FIRST_COMPLETED)
            if requests.done():
                await asyncio.wait({answers}, timeout=ANSWER_SECONDS if requests.result() else 0)
        finally:
            for each in (answers, requests):
                each.cancel()
            await asyncio.gather(answers, requests, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, to_writer: asyncio.StreamWriter) -> bool:
        """Forward requests; return True if one was delayed, and its client may disconnect before the response."""
        has_waited = False
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size, "big"))
                has_waited |= await self._wait(frame)
                to_writer.write(size + frame)
                await to_writer.drain()
        return has_waited

    async def _wait(self, frame: bytes) -> bool:
        if not self._wires.rules:
            return False
        api_key, client_size = struct.unpack_from(">h6xh", frame)
        seconds, is_hold = self._wires.wait_of(api_key)
        if not is_hold:
            await asyncio.sleep(seconds)
            return seconds > 0
        self._wires.held[api_key] += 1
        client_id = frame[10 : 10 + max(client_size, 0)].decode(errors="replace")
        complete = self._wires.journal.invoke("wire", "fault", what="hold", transactional_id=client_id, api=api_key)
        await asyncio.sleep(seconds)
        complete(OK)
        return True


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward responses until the broker closes; drop those to a disconnected client."""
    while part := await reader.read(READ_BYTES):
        with suppress(OSError):
            writer.write(part)
            await writer.drain()

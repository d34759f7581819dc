"""A proxy before each broker that delays, reorders and holds back chosen requests, of clients and of other brokers.

It stands in the broker's own network namespace, and what arrives there for the broker's ports is redirected to it: the
addresses that brokers and clients know are still the broker's, and cuts by address still cut. A connection keeps its
order, as TCP does, and so what follows a request that waits, waits, too; requests of several connections overtake each
other. A client that gives up and goes takes nothing with it: what it had sent gets to the broker later.
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
"""What is added to a port of the broker for that of the proxy."""
ANSWER_SECONDS = 5.0
"""How long an answer is waited for that nobody wants any more."""
READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests wait, and for how long."""

    api_keys: frozenset[int] = frozenset()
    """Nothing: all."""
    share: float = 1.0
    seconds: tuple[float, float] = (0.0, 0.2)
    is_hold: bool = False
    """Whether the history has to know: who waits gives up, and repeats what is still under way."""


@dataclass(slots=True)
class Wires:
    """The proxies of all brokers, and what they do at present."""

    network: Network
    nodes: Mapping[int, BrokerNode]
    journal: Journal
    random_source: random.Random
    rules: tuple[Rule, ...] = ()
    held: Counter[int] = field(default_factory=Counter)
    """By API key."""
    _all: list[Wire] = field(default_factory=list)

    def start(self) -> None:
        for node_id, node in self.nodes.items():
            ports = (CLIENT_PORT, PORT) if node.is_controller else (CLIENT_PORT,)
            self._all.append(Wire(self, node_id, ports))
            for port in ports:
                self.network.redirect(node_id, port, port + BEHIND)

    def clear(self) -> None:
        """Nothing waits from now on; what waits already goes on in its time."""
        self.rules = ()

    def wait_of(self, api_key: int) -> tuple[float, bool]:
        """How long a request has to wait, and whether that is a hold."""
        for rule in self.rules:
            if (not rule.api_keys or api_key in rule.api_keys) and self.random_source.random() < rule.share:
                return self.random_source.uniform(*rule.seconds), rule.is_hold
        return 0.0, False

    def close(self) -> None:
        for wire in self._all:
            wire.close()


class Wire:
    """The proxy of one broker, in a thread whose sockets are in the broker's namespace."""

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
        await asyncio.sleep(0)  # transports that were aborted close their sockets

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
        """Until the broker is done, or everything of a client that has gone was handed over and answered."""
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
        """Whether something had to wait and may be answered when nobody listens any more."""
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
    """Until the broker hangs up. What nobody takes any more is thrown away."""
    while part := await reader.read(READ_BYTES):
        with suppress(OSError):
            writer.write(part)
            await writer.drain()

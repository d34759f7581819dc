"""Listener with one connection, whose transport is controlled by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from kwire.cluster.configs.settings import read_settings
from kwire.server.network.connection import Connection
from kwire.server.network.connection_limits import ListenerSettings, limits_of
from kwire.server.network.flow.turns import Turns
from kwire.server.network.listener import ConnectionTable, Listener
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.network.memory.receive_buffer import ReceiveBuffer
from kwire.server.network.memory.request_memory import RequestMemory
from kwire.server.settings.config import make_config
from tests.virtual_loop import VirtualLoop, virtual_loop


class Transport:
    """Transport that records the calls; a test sets how much output it accepts."""

    def __init__(self, peer: tuple[str, int] | None = ("10.0.0.1", 99)) -> None:
        self.peer = peer
        self.calls: list[str] = []
        self.written: list[bytes] = []
        self.unsent = 0

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return self.peer

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.calls.append("write")
        self.written.append(bytes(data))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append(name)


class ConnectionHarness:
    """A listener and one connection of it."""

    def __init__(self, *, peer: tuple[str, int] | None = ("10.0.0.1", 99), turns: Turns | None = None) -> None:
        self.request_errors: list[BaseException] = []
        self.served: list[bytes] = []
        self.outcome: Any = (None, 0)
        self.table = ConnectionTable()
        self.listener = Listener(
            name="PLAINTEXT",
            limits=limits_of(read_settings(ListenerSettings, make_config({}).parsed)),
            memory=RequestMemory(1 << 20),
            output=OutputMemory(1 << 20),
            turns=turns or Turns(lambda: 0.0),  # with a fixed clock, no share of time ends on a slow machine
            table=self.table,
            receive_buffer=ReceiveBuffer(asyncio.get_running_loop().call_soon),
            on_request_error=self.request_errors.append,
        )
        self.listener.handle = self._handle
        self.transport = Transport(peer)
        self.connection = Connection(self.listener)
        self.connection.connection_made(cast("Any", self.transport))

    def _handle(self, connection: Connection, frame: bytes) -> Any:
        self.served.append(frame)
        return self.outcome

    def receive(self, data: bytes) -> None:
        while data:
            buffer = self.connection.get_buffer(len(data))
            count = min(len(data), len(buffer))
            buffer[:count], data = data[:count], data[count:]
            self.connection.buffer_updated(count)

    def count_calls(self, name: str) -> int:
        return self.transport.calls.count(name)


def play(act: Callable[[VirtualLoop], Awaitable[None]]) -> None:
    with virtual_loop() as loop:

        async def main() -> None:
            await act(loop)

        loop.run_until_complete(main())

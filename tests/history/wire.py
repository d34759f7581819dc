"""TCP proxy in front of the broker that can hold a producer's EndTxn until its next transaction has begun.

A connection keeps its order: data after a held request waits as well. Clients time out and repeat the request on a new
connection; the held request stays on the old one, and reaches the broker later. Real networks can cause this too.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.history.journal import Complete, Journal
from tests.history.operations import OK

PRODUCE, END_TXN = 0, 26
HOST = "127.0.0.1"
FORWARD_SECONDS = 0.01
"""Delay from the next transaction's first batch until the held request is sent: more batches follow it."""
T = TypeVar("T")


@dataclass(slots=True)
class Held:
    """Held request."""

    client_id: str
    complete: Complete
    go: asyncio.Event = field(default_factory=asyncio.Event)
    is_repeated: bool = False
    """True if the client has ended its transaction by another request."""


@dataclass(frozen=True, slots=True)
class Header:
    api_key: int
    client_id: str

    @classmethod
    def of(cls, frame: bytes) -> Header:
        api_key, size = struct.unpack_from(">h6xh", frame)
        return cls(api_key, frame[10 : 10 + size].decode() if size > 0 else "")


class Wire:
    """Proxy in a separate thread. The client ids of transactional producers are their transactional ids."""

    def __init__(self, broker_port: int, port: int, journal: Journal) -> None:
        self.port = port
        self._broker_port = broker_port
        self._journal = journal
        self._to_hold: set[str] = set()
        self._held: list[Held] = []
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._server = self._wait(asyncio.start_server(self._serve, HOST, self.port))

    def close(self) -> None:
        self._wait(self._cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _cancel(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- requests of the nemesis

    def hold_next(self, client_id: str) -> None:
        """Hold the client's next EndTxn."""
        self._loop.call_soon_threadsafe(self._to_hold.add, client_id)

    def release_all(self) -> None:
        """Send all held requests, and hold no more."""
        self._loop.call_soon_threadsafe(self._release_all)

    def _release_all(self) -> None:
        self._to_hold.clear()
        for held in self._held:
            held.go.set()

    @property
    def holding(self) -> bool:
        return bool(self._held)

    # --- connections

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                to_reader, to_writer = await asyncio.open_connection(HOST, self._broker_port)
                try:
                    await self._carry(reader, writer, to_reader, to_writer)
                finally:
                    await _hang_up(to_writer)
            finally:
                await _hang_up(writer)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to_reader: asyncio.StreamReader,
        to_writer: asyncio.StreamWriter,
    ) -> None:
        """Forward data until both sides have closed; a disconnected client does not remove its held request."""
        answers = asyncio.ensure_future(self._answers(to_reader, writer))
        requests = asyncio.ensure_future(self._requests(reader, to_reader, to_writer, answers))
        try:
            await asyncio.wait({answers, requests}, return_when=asyncio.FIRST_COMPLETED)
            if answers.done() and not answers.cancelled():
                requests.cancel()
            await requests
        finally:
            answers.cancel()
            requests.cancel()
            await asyncio.gather(answers, requests, return_exceptions=True)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        to_reader: asyncio.StreamReader,
        to_writer: asyncio.StreamWriter,
        answers: asyncio.Future[None],
    ) -> None:
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            header = Header.of(frame)
            if header.api_key == END_TXN and header.client_id in self._to_hold:
                self._to_hold.discard(header.client_id)
                answers.cancel()
                await self._hold(header, size + frame, to_reader, to_writer)
                return
            self._notice(header)
            to_writer.write(size + frame)
            await to_writer.drain()

    def _notice(self, header: Header) -> None:
        """Release held requests whose client's next transaction has begun to write."""
        for held in self._held:
            if held.client_id != header.client_id:
                continue
            if header.api_key == END_TXN:
                held.is_repeated = True
            elif header.api_key == PRODUCE and held.is_repeated:
                self._loop.call_later(FORWARD_SECONDS, held.go.set)

    async def _hold(
        self, header: Header, frame: bytes, to_reader: asyncio.StreamReader, to_writer: asyncio.StreamWriter
    ) -> None:
        """Hold a request; its response is dropped, because the client no longer waits for it."""
        complete = self._journal.invoke("wire", "fault", what="hold", transactional_id=header.client_id)
        held = Held(header.client_id, complete)
        self._held.append(held)
        answer = "lost"
        try:
            await held.go.wait()
            to_writer.write(frame)
            await to_writer.drain()
            size = await to_reader.readexactly(4)
            answer = (await to_reader.readexactly(int.from_bytes(size, "big"))).hex()
        finally:
            self._held.remove(held)
            complete(OK, answer=answer)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close at once: a paused peer reads no more data."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()

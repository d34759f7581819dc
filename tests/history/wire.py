"""A TCP proxy before the broker that can hold a producer's EndTxn back until its next transaction is under way.

A connection keeps its order: what follows a held request on it waits, too. Clients give up after a while and repeat
themselves on a new connection; the held request stays with the old one, and gets to the broker later. So it happens on
real networks, where nobody counts on it.
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
"""From the next transaction's first batch until the held request goes on: the batch is in, others are still to come."""
T = TypeVar("T")


@dataclass(slots=True)
class Held:
    """One request that waits here."""

    client_id: str
    complete: Complete
    go: asyncio.Event = field(default_factory=asyncio.Event)
    is_repeated: bool = False
    """The client has ended its transaction by another request."""


@dataclass(frozen=True, slots=True)
class Header:
    api_key: int
    client_id: str

    @classmethod
    def of(cls, frame: bytes) -> Header:
        api_key, size = struct.unpack_from(">h6xh", frame)
        return cls(api_key, frame[10 : 10 + size].decode() if size > 0 else "")


class Wire:
    """The proxy, in a thread of its own. Client ids of transactional producers are their transactional ids."""

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

    # --- what the nemesis asks for

    def hold_next(self, client_id: str) -> None:
        """The client's next EndTxn will wait."""
        self._loop.call_soon_threadsafe(self._to_hold.add, client_id)

    def release_all(self) -> None:
        """What waits goes on; nothing more will wait."""
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
        """Until both sides are done; a client that hangs up does not take a held request with it."""
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
        """Lets held requests go when their client's next transaction has begun to write."""
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
        """Its answer goes nowhere: nobody waits for it any more."""
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
    """At once: a peer that is paused takes nothing more."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()

"""Load of one storm, from many addresses in 127.0.0.0/8; it computes as little as it can.

    python -m tests.campaign.storms.load KIND LISTENER.json SECONDS RATE

- slow: 1,000 handshakes at the same time, each a byte every two seconds
- connects: RATE connections a second, each closed after its ApiVersions response
- handshakes: RATE connections a second, each with the first message of a TLS handshake, closed after the answer
- together: 900 connections whose first messages of TLS arrive at the same time, again and again
- idle: RATE connections over TLS that do nothing once all are open
- plain, scram: RATE logins a second with a wrong password

prints a line of JSON at its end: the number of attempts, of answers, and of connections that were open at the end.
The kind idle prints a line when its connections are open.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvloop

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.requesting import frame_request
from tests.campaign.secured_listener import SecuredListener, handshake_frame, token_frame
from tests.hostile.attack import Connection

SLOW: Final = 1000
TOGETHER: Final = 900
"""Handshakes at the same time, fewer than a listener's limit."""
TOGETHER_SECONDS: Final = 1.0
BYTE_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
NICENESS: Final = 5
OPENED_AT_ONCE: Final = 50
_VERSIONS: Final = frame_request(ApiVersionsRequest(), 0, 1, "storm")
_PLAIN: Final = handshake_frame() + token_frame(b"\0alice\0wrong password")
_SCRAM: Final = handshake_frame("SCRAM-SHA-256")


class Storm:
    """Storm of one kind against one listener."""

    def __init__(self, listener: SecuredListener) -> None:
        self._listener = listener
        self._random_source = random.Random(1)
        self._context = listener.context()
        self._hello = self._first_message()
        self.counts: Counter[str] = Counter()
        self.opened: list[asyncio.StreamWriter] = []

    def _first_message(self) -> bytes:
        outgoing = ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
        return outgoing.read()

    def _source(self) -> str:
        return ".".join(["127", *(str(self._random_source.randint(1, 250)) for _ in range(3))])

    # --- kinds

    async def slow(self) -> None:
        _, writer = await self._listener.connect(self._source(), None)
        for byte in self._hello:
            writer.write(bytes([byte]))
            self.counts["answered"] += 1
            await asyncio.sleep(BYTE_SECONDS)
            if writer.transport.is_closing():
                break
        writer.transport.abort()

    async def connects(self) -> None:
        await self._exchange(_VERSIONS)

    async def handshakes(self) -> None:
        await self._exchange(self._hello)

    async def together(self) -> None:
        """Open many connections, send all first messages at once, and close the connections."""

        async def one() -> Connection:
            return await self._listener.connect(self._source(), None)

        opened = [await one() for _ in range(TOGETHER)]
        await asyncio.sleep(TOGETHER_SECONDS / 2)
        for _, writer in opened:
            writer.write(self._hello)
        await asyncio.sleep(TOGETHER_SECONDS)
        self.counts["answered"] += sum(bool(reader._buffer) for reader, _ in opened)  # type: ignore[attr-defined]
        for _, writer in opened:
            writer.transport.abort()

    async def plain(self) -> None:
        await self._exchange(_PLAIN)

    async def scram(self) -> None:
        """Log in with a wrong proof, which costs this side nothing."""
        nonce = b"%x" % self._random_source.getrandbits(64)
        reader, writer = await self._listener.connect(self._source(), None)
        try:
            writer.write(_SCRAM + token_frame(b"n,,n=alice,r=" + nonce))
            await _frame(reader)
            first = await _frame(reader)
            combined = first[first.index(b"r=") + 2 :].partition(b",")[0]
            writer.write(token_frame(b"c=biws,r=" + combined + b",p=" + b"A" * 43 + b"="))
            await _frame(reader)
            self.counts["answered"] += 1
        finally:
            writer.transport.abort()

    async def idle(self) -> None:
        self.opened.append((await self._listener.connect(self._source(), self._context))[1])
        self.counts["answered"] += 1

    async def _exchange(self, data: bytes) -> None:
        """Connect, send, read what comes first, and close."""
        reader, writer = await self._listener.connect(self._source(), None)
        try:
            writer.write(data)
            if await reader.read(1 << 16):
                self.counts["answered"] += 1
        finally:
            writer.transport.abort()

    # --- rates

    async def attempt(self, kind: Callable[[], Awaitable[None]]) -> None:
        self.counts["attempts"] += 1
        try:
            async with asyncio.timeout(None if kind in (self.slow, self.together) else ANSWER_SECONDS):
                await kind()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
            self.counts[type(error).__name__] += 1

    async def at_rate(self, kind: Callable[[], Awaitable[None]], seconds: float, rate: int) -> None:
        """Start attempts at a rate, whether the earlier ones have ended or not."""
        began = time.monotonic()
        tasks: set[asyncio.Task[None]] = set()
        while (passed := time.monotonic() - began) < seconds:
            while self.counts["attempts"] < passed * rate and len(tasks) < rate * ANSWER_SECONDS:
                task = asyncio.ensure_future(self.attempt(kind))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                await asyncio.sleep(0)
            await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def at_once(self, kind: Callable[[], Awaitable[None]], count: int, seconds: float) -> None:
        """Hold a number of attempts at the same time; each is followed by another one."""
        end = time.monotonic() + seconds

        async def again() -> None:
            while time.monotonic() < end:
                await self.attempt(kind)

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(again() for _ in range(count)))

    async def open_idle(self, count: int, seconds: float) -> None:
        """Open all idle connections, then wait."""
        limit = asyncio.Semaphore(OPENED_AT_ONCE)

        async def one() -> None:
            async with limit:
                await self.attempt(self.idle)

        await asyncio.gather(*(one() for _ in range(count)))
        print(json.dumps({"open": len(self.opened)}), flush=True)
        await asyncio.sleep(seconds)

    async def run(self, kind: str, seconds: float, rate: int) -> None:
        if kind == "idle":
            await self.open_idle(rate, seconds)
        elif kind == "together":
            await self.at_once(self.together, 1, seconds)
        elif kind == "slow":
            await self.at_once(self.slow, SLOW, seconds)
        else:
            await self.at_rate(getattr(self, kind), seconds, rate)
        self.counts["open"] = sum(not each.transport.is_closing() for each in self.opened)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def main() -> None:
    kind, file, seconds, rate = sys.argv[1:]
    os.nice(NICENESS)  # the load must not take the processor from the clients that are measured
    storm = Storm(SecuredListener.read(Path(file)))
    uvloop.run(storm.run(kind, float(seconds), int(rate)))
    print(json.dumps(storm.counts), flush=True)


if __name__ == "__main__":
    main()

"""TCP proxy in front of a broker: it drops chosen responses, or kills the process that waits for one.

The broker has applied the request by then. The proxy closes the connection, so the client does not know the outcome.
"""

import asyncio
import contextlib
import os
import signal
import struct
import threading
from collections import Counter
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from compat_tests.harness.ports import HOST

T = TypeVar("T")
READ_BYTES = 1 << 16
API_KEYS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "EndTxn": 26,
}
NAMES = {key: name for name, key in API_KEYS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Selects responses to be dropped, by API and client."""

    apis: Collection[str]
    client_id: str
    """Prefix of the client id."""
    share: float
    count_max: int
    kills: bool = False
    """True if the client's process is killed as well."""


class Proxy:
    """Proxy in a thread of its own."""

    def __init__(self, broker_port: int, port: int) -> None:
        self.address = f"{HOST}:{port}"
        self.port = port
        self.dropped: Counter[str] = Counter()
        """Dropped responses by API."""
        self.killed: list[int] = []
        """Processes that were killed."""
        self._broker_port = broker_port
        self._rule: Rule | None = None
        self._random = Random()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
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

    def disturb(self, rule: Rule, random_source: Random) -> None:
        """Begin to drop responses."""
        self.dropped.clear()
        self.killed.clear()
        self._random = random_source
        self._rule = rule

    def heal(self) -> None:
        self._rule = None

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _cancel(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                from_broker, to_broker = await asyncio.open_connection(HOST, self._broker_port)
                try:
                    await self._carry(reader, writer, from_broker, to_broker)
                finally:
                    to_broker.transport.abort()
            finally:
                writer.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> None:
        """Forward requests and responses until one side closes or a response is dropped."""
        to_drop: dict[int, str] = {}
        directions = [
            asyncio.ensure_future(self._requests(reader, to_broker, to_drop)),
            asyncio.ensure_future(self._responses(from_broker, writer, to_drop)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _requests(
        self, reader: asyncio.StreamReader, to_broker: asyncio.StreamWriter, to_drop: dict[int, str]
    ) -> None:
        while True:
            frame = await _frame(reader)
            if self._rule is not None:
                api_key, correlation_id, size = struct.unpack_from(">h2xih", frame, 4)
                name, client_id = NAMES.get(api_key, ""), frame[14 : 14 + max(size, 0)].decode(errors="replace")
                if self._selects(name, client_id):
                    to_drop[correlation_id] = name
            to_broker.write(frame)
            await to_broker.drain()

    def _selects(self, name: str, client_id: str) -> bool:
        rule = self._rule
        return (
            rule is not None
            and name in rule.apis
            and client_id.startswith(rule.client_id)
            and self._random.random() < rule.share
        )

    async def _responses(
        self, from_broker: asyncio.StreamReader, writer: asyncio.StreamWriter, to_drop: dict[int, str]
    ) -> None:
        while True:
            frame = await _frame(from_broker)
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if (name := to_drop.pop(correlation_id, None)) is not None and self._may_drop():
                self.dropped[name] += 1
                if self._rule is not None and self._rule.kills:
                    self._kill(writer.get_extra_info("peername")[1])
                return
            writer.write(frame)
            await writer.drain()

    def _may_drop(self) -> bool:
        return self._rule is not None and self.dropped.total() < self._rule.count_max

    def _kill(self, port: int) -> None:
        found = process_of(port, self.port)
        if found is not None and found != os.getpid():
            os.kill(found, signal.SIGKILL)
            self.killed.append(found)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))


def process_of(port: int, remote_port: int) -> int | None:
    """Return the process with the connection between two local ports, None if it has closed it."""
    own, other = (f"0100007F:{each:04X}" for each in (port, remote_port))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == [own, other]:
            return _owner(f"socket:[{fields[9]}]")
    return None


def _owner(name: str) -> int | None:
    """Return the process that has a file open; /proc names an open socket by its inode."""
    for process in Path("/proc").glob("[0-9]*"):
        if name in _open_files(process):
            return int(process.name)
    return None


def _open_files(process: Path) -> set[str]:
    """Return the names of the open files of a process; those that are closed meanwhile are left out."""
    names = set()
    with contextlib.suppress(OSError):
        for link in os.listdir(process / "fd"):  # noqa: PTH208 names only
            with contextlib.suppress(OSError):
                names.add(os.readlink(process / "fd" / link))  # noqa: PTH115 not a path
    return names

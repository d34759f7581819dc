"""A broker in a thread of the test process: tests can inspect and replace its parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from kwire.cluster.security.authorizer import Authorizer
from kwire.server.assembly.broker import BrokerServer, start_broker
from kwire.server.node.runtime import Seams
from kwire.server.settings.config import make_config
from tests.support.raw_client import RawClient

T = TypeVar("T")
SECONDS = 30.0


class RunningBroker:
    """A broker that starts at once; stop(), or the end of a with block, stops it. `seams` are the fields of Seams."""

    def __init__(self, data_dir: Path, config: dict[str, str] | None = None, **seams: Any) -> None:
        own = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(data_dir),
            "log.initial.task.delay.ms": str(3600 * 1000),  # tests use old timestamps, which retention would delete
        }
        self._settings = {**own, **(config or {})}
        self._seams = Seams(**seams)
        self._started: Future[BrokerServer] = Future()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), daemon=True)
        self._thread.start()
        try:
            self.server = self._started.result(SECONDS)
        except BaseException:
            self._thread.join(SECONDS)
            raise
        self.bootstrap_server = self.server.bootstrap_server

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = await start_broker(make_config(self._settings), self._seams)
        except BaseException as error:  # noqa: BLE001 raised where the broker was wanted
            self._started.set_exception(error)
            return
        self._started.set_result(server)
        await self._stopping.wait()
        await server.stop()

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of a function that runs on the broker's event loop."""
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 raised where it was asked for
                result.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return result.result(SECONDS)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the broker's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def authorize_by(self, authorizer: Authorizer) -> None:
        """Make the broker, and the controller in the same process, use this authorizer."""
        controller = self.server._controller
        assert controller is not None
        for services in (self.server.services, controller._services):
            self.call(partial(setattr, services, "authorizer", authorizer))

    def client(self, **settings: Any) -> RawClient:
        return RawClient(self.bootstrap_server, **settings)

    @property
    def memory_used(self) -> int:
        """Return the bytes that requests hold in the broker."""
        return self.call(lambda: self.server._listeners.first.memory.used_bytes)

    @property
    def connection_count(self) -> int:
        return self.call(lambda: len(self.server._listeners.table.connections))

    def waiters(self, topic: str, partition: int = 0) -> int:
        """Return the number of delayed fetches of a partition."""
        return self.call(lambda: len(self.server.services.partitions.find(topic, partition)._waiters))

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(SECONDS)
            assert not self._thread.is_alive(), "the broker did not stop"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

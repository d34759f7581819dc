"""A broker inside a Python program: `with kwire.Broker() as broker: connect_to(broker.bootstrap_server)`.

The broker is the one that `kwire server` runs. It gets an event loop in a thread of its own, or with
isolation="process" a process of its own, so that it does not share the program's interpreter lock. Several run side by
side: the port is picked freely unless a listener says otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from kwire import event_loop
from kwire.invariants import failure_reason
from kwire.server.broker import BrokerServer
from kwire.server.own_processes import command_of, environment
from kwire.server.settings.config import SettingError, make_config

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
ANY_PORT = "PLAINTEXT://127.0.0.1:0"
READY_LINE = "kwire: serving Kafka on "


class BrokerFailedError(RuntimeError):
    """The broker could not start, or ended by itself; the message says why."""


class _Runner(Protocol):
    def start(self, settings: Mapping[str, str]) -> str:
        """Start with these settings; the bootstrap server."""

    def stop(self) -> None: ...


class Broker:
    """One Kafka broker, started by `with` or start(), stopped at the block's end or by stop().

    config        settings by Kafka's dotted names; they win over the defaults of an embedded broker
    data_dir      where the logs are; by default a temporary directory that goes with the broker
    isolation     "thread" runs it in this process, "process" in one of its own
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        data_dir: str | Path | None = None,
        isolation: Literal["thread", "process"] = "thread",
    ) -> None:
        if isolation not in ("thread", "process"):
            raise ValueError(f'isolation is "thread" or "process", not {isolation!r}')
        self._config = {name: _text(value) for name, value in (config or {}).items()}
        self._data_dir = data_dir
        self._temporary: str | None = None
        self._runner: _Runner = _ThreadRunner() if isolation == "thread" else _ProcessRunner()
        self._bootstrap_server: str | None = None

    def start(self) -> Self:
        """Start and return when the broker serves. Raises BrokerFailedError."""
        if self._bootstrap_server is not None:
            raise RuntimeError("the broker runs already")
        settings = {"listeners": ANY_PORT, **self._config}
        if "log.dirs" not in settings and "log.dir" not in settings:
            settings["log.dirs"] = str(self._data_dir or self._make_temporary())
        try:
            self._bootstrap_server = self._runner.start(settings)
        except BaseException:
            self._remove_temporary()
            raise
        return self

    def stop(self) -> None:
        """Stop as a server stops: what was acknowledged is on disk. A second call does nothing."""
        if self._bootstrap_server is None:
            return
        self._bootstrap_server = None
        try:
            self._runner.stop()
        finally:
            self._remove_temporary()

    @property
    def bootstrap_server(self) -> str:
        """host:port for a client's bootstrap.servers."""
        if self._bootstrap_server is None:
            raise RuntimeError("the broker does not run; use `with kwire.Broker() as broker`")
        return self._bootstrap_server

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _make_temporary(self) -> str:
        self._temporary = tempfile.mkdtemp(prefix="kwire-")
        return self._temporary

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _text(value: object) -> str:
    """A setting as a properties file would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(_text(item) for item in value)
    return str(value)


class _ThreadRunner:
    """Runs a broker on an event loop in a daemon thread."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._bootstrap_server = ""
        self._error: BaseException | None = None

    def start(self, settings: Mapping[str, str]) -> str:
        self._ready.clear()
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(settings,), name="kwire-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        self._raise_error()
        return self._bootstrap_server

    def stop(self) -> None:
        assert self._thread is not None
        assert self._loop is not None
        assert self._stopping is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise BrokerFailedError(failure_reason(self._error)) from self._error

    def _run(self, settings: Mapping[str, str]) -> None:
        try:
            event_loop.run(self._serve(settings))
        except BaseException as error:  # noqa: BLE001 told to whoever started the broker
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self, settings: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        broker = BrokerServer(make_config(settings))
        await broker.start()
        self._bootstrap_server = broker.bootstrap_server
        self._ready.set()
        stopping = self._stopping
        broker.failed.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
        await broker.stop()
        if broker.failed.done():
            raise broker.failed.result()


class _ProcessRunner:
    """Runs `kwire server` in a child process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._drain: threading.Thread | None = None

    def start(self, settings: Mapping[str, str]) -> str:
        try:
            make_config(settings)
        except SettingError as error:
            raise BrokerFailedError(str(error)) from error
        overrides = [part for name, value in settings.items() for part in ("--override", f"{name}={value}")]
        self._process = subprocess.Popen(
            command_of("kwire", "server", *overrides),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )
        return self._wait_for_ready(self._process)

    def _wait_for_ready(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        watchdog = threading.Timer(START_SECONDS_MAX, process.kill)
        watchdog.start()
        said: list[str] = []
        try:
            for line in process.stdout:
                if line.startswith(READY_LINE):
                    self._drain = threading.Thread(target=_drain, args=(process,), daemon=True)
                    self._drain.start()
                    return line.removeprefix(READY_LINE).partition(",")[0]
                said.append(line.rstrip())
        finally:
            watchdog.cancel()
        process.wait()
        process.stdout.close()
        raise BrokerFailedError(said[-1] if said else f"the broker's process ended with status {process.returncode}")

    def stop(self) -> None:
        process = self._process
        assert process is not None
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if self._drain is not None:
                self._drain.join()
        if process.returncode != 0:
            raise BrokerFailedError(f"the broker's process ended with status {process.returncode}")


def _drain(process: subprocess.Popen[str]) -> None:
    """Read what the broker says, so that it never waits for a full pipe."""
    assert process.stdout is not None
    with process.stdout as output:
        for _ in output:
            pass

"""Broker inside a Python program: `with kwire.Broker() as broker: connect_to(broker.bootstrap_server)`.

The broker is the one that `kwire server` runs. It runs on an event loop in its own thread. With isolation="process" it
runs in its own process, and does not share the program's interpreter lock. Several brokers can run side by side,
because each selects a free port unless a listener sets one.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, Protocol, Self
from weakref import WeakSet

from kwire import event_loop
from kwire.invariants import failure_reason
from kwire.own_processes import command_of, environment
from kwire.server.assembly.broker import start_broker
from kwire.server.settings.config import SettingError, make_config

START_SECONDS_MAX = 30.0
"""Longest time that a broker's process may start without a progress line."""
STOP_SECONDS_MAX = 30.0
"""Longest time that it may stop without a progress line."""
ANY_PORT = "PLAINTEXT://127.0.0.1:0"
READY_LINE = "kwire: serving Kafka on "
LEAVE_QUORUM_LINE = "\n"
"""Line for a node that is stopped by a signal while the other nodes of its quorum continue (kwire.cli.stopping)."""
_POLL_SECONDS = 0.5
LAST_LINES_MAX = 20
"""Lines of a broker's process that are kept for the error message about its end."""


class BrokerFailedError(RuntimeError):
    """The broker could not start, or failed later; the message gives the reason."""


class _Runner(Protocol):
    def start(self, settings: Mapping[str, str]) -> str:
        """Start with these settings; return the bootstrap server."""

    def stop(self) -> None: ...

    def abandon(self) -> None:
        """Stop the broker after a failed or interrupted start()."""


class Broker:
    """Kafka broker, started by `with` or start(), stopped at the block's end or by stop().

    config        settings by Kafka's dotted names; they override the defaults of an embedded broker
    data_dir      directory of the logs; by default a temporary directory that is removed with the broker
    isolation     "thread" runs it in this process, "process" in its own process
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        isolation: Literal["thread", "process"] = "thread",
    ) -> None:
        if isolation not in ("thread", "process"):
            raise ValueError(f'isolation is "thread" or "process", not {isolation!r}')
        self._config = {_name(name): _text(value) for name, value in (config or {}).items()}
        self._data_dir = None if data_dir is None else _directory(data_dir)
        self._temporary: str | None = None
        self._owner = 0
        """Id of the process that started the broker; a fork of it has a copy of this object, but no broker."""
        self._runner: _Runner = (
            _ThreadRunner() if isolation == "thread" else _ProcessRunner(temporary=lambda: self._temporary)
        )
        self._bootstrap_server: str | None = None
        self._starting = threading.Lock()

    def start(self) -> Self:
        """Start, and return when the broker serves clients. Raises BrokerFailedError."""
        if not self._starting.acquire(blocking=False):
            raise RuntimeError("another thread starts the broker")
        try:
            return self._start()
        finally:
            self._starting.release()

    def _start(self) -> Self:
        if self._bootstrap_server is not None:
            raise RuntimeError("the broker runs already")
        settings = {"listeners": ANY_PORT, **self._config}
        self._owner = os.getpid()
        atexit.register(self._stop_at_exit)
        try:
            if "log.dirs" not in settings and "log.dir" not in settings:
                settings["log.dirs"] = self._make_temporary() if self._data_dir is None else self._data_dir
            self._bootstrap_server = self._runner.start(settings)
        except BaseException:  # a signal handler may raise here: without abandon() nothing can stop the broker
            self._bootstrap_server = None
            atexit.unregister(self._stop_at_exit)
            self._runner.abandon()
            self._remove_temporary()
            raise
        return self

    def stop(self) -> None:
        """Stop like a server: acknowledged records are on disk.

        Raises BrokerFailedError if the broker had failed before. A second call does nothing, nor does a call in a fork
        of the process that started the broker.
        """
        if self._bootstrap_server is None:
            return
        if self._owner != os.getpid():
            self._bootstrap_server = None
            return
        try:
            self._runner.stop()
        except BrokerFailedError:
            self._release()
            raise
        self._release()  # not after a signal handler raised: the broker still stops, and a second call waits for it

    def _release(self) -> None:
        self._remove_temporary()
        self._bootstrap_server = None
        atexit.unregister(self._stop_at_exit)

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

    def _stop_at_exit(self) -> None:
        """Stop the broker when the program ends without stop(); the reason for an earlier failure is dropped."""
        with contextlib.suppress(BrokerFailedError):
            self.stop()

    def _make_temporary(self) -> str:
        path = Path(tempfile.gettempdir()) / f"kwire-{uuid.uuid4().hex}"
        try:
            name = _directory(path)
        except ValueError as error:
            raise BrokerFailedError(
                f"the directory of temporary files: {error}; set TMPDIR, or give data_dir"
            ) from None
        self._temporary = name  # before it exists: a signal handler may raise as soon as it does
        path.mkdir(mode=0o700)
        return name

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"config: {name!r} is no name of a setting")
    return name


def _directory(path: str | os.PathLike[str]) -> str:
    """Return a path as text. Raises an error for paths that log.dirs cannot express."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"data_dir: {text!r} is no str or path")
    if "," in text:
        raise ValueError(f"data_dir: {text} contains a comma, which separates directories in log.dirs")
    if not text or text != text.strip():
        raise ValueError(f"data_dir: {text!r} is empty, or begins or ends with a blank, invalid in log.dirs")
    return text


def _text(value: object) -> str:
    """Return a setting's value as text for a properties file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(_text(item) for item in value)
    return str(value)


class _Latch:
    """Event that another thread sets once; a signal handler may interrupt wait(), and the caller may repeat it.

    threading.Event is not safe for that: a handler that raises inside wait() can leave its lock acquired forever. A
    signal just before the wait begins does not end it, so wait() checks the flag every half second.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self._is_set = True
        self._tokens.put(None)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until set() is called; return False after the timeout."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self._is_set and (until is None or time.monotonic() < until):
            with contextlib.suppress(queue.Empty):
                self._tokens.get(timeout=_POLL_SECONDS)
        return self._is_set


class _ThreadRunner:
    """Broker on an event loop in a daemon thread."""

    def __init__(self) -> None:
        self._ready = _Latch()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_abandoned = False
        self._bootstrap_server = ""
        self._error: BaseException | None = None
        self._ended = _Latch()
        """Set when the thread has ended. Thread.join() cannot be repeated after an interrupt (bpo-45274)."""

    def start(self, settings: Mapping[str, str]) -> str:
        self._ready, self._ended = _Latch(), _Latch()
        self._error = None
        self._is_abandoned = False
        self._loop = self._stopping = None
        self._thread = threading.Thread(target=self._run, args=(settings,), name="kwire-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        self._raise_error()
        return self._bootstrap_server

    def stop(self) -> None:
        assert self._thread is not None
        assert self._loop is not None
        assert self._stopping is not None
        with contextlib.suppress(RuntimeError):  # the loop has already ended
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._ended.wait()
        self._thread.join()
        self._raise_error()

    def abandon(self) -> None:
        self._is_abandoned = True
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not None and self._thread.is_alive() and self._ended.wait(STOP_SECONDS_MAX):
            self._thread.join()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise BrokerFailedError(failure_reason(self._error)) from self._error

    def _run(self, settings: Mapping[str, str]) -> None:
        try:
            event_loop.run(self._serve(settings))
        except BaseException as error:  # noqa: BLE001 raised to the caller of start() or stop()
            self._error = error
        finally:
            self._ready.set()
            self._ended.set()

    async def _serve(self, settings: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        stopping = self._stopping = asyncio.Event()
        if self._is_abandoned:
            return
        stopped = asyncio.ensure_future(stopping.wait())
        starting = asyncio.ensure_future(start_broker(make_config(settings)))
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait((starting,))
            return
        broker = starting.result()
        self._bootstrap_server = broker.bootstrap_server
        self._ready.set()
        broker.failed.add_done_callback(lambda _: stopping.set())
        await stopped
        await broker.stop()
        if broker.failed.done():
            raise broker.failed.result()


class _ProcessRunner:
    """Broker in a child process that runs `kwire server`; it stops when this process ends, for whatever reason."""

    def __init__(self, *, temporary: Callable[[], str | None]) -> None:
        """Create a runner; `temporary` returns the directory that is removed with the broker, or None."""
        self._temporary = temporary
        self._process: subprocess.Popen[str] | None = None
        self._drain: threading.Thread | None = None
        self._is_stopping = False
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES_MAX)
        self._last_output = 0.0
        """Time of the process's last line, or of its start or stop."""
        self._bootstrap_server: str | None = None

    def start(self, settings: Mapping[str, str]) -> str:
        try:
            make_config(settings)
        except SettingError as error:
            raise BrokerFailedError(str(error)) from error
        overrides = [part for name, value in settings.items() for part in ("--override", f"{name}={value}")]
        temporary = self._temporary()
        options = ["--stop-with-stdin", "--say-progress", *(["--remove-after", temporary] if temporary else [])]
        self._last_lines.clear()
        self._process = self._drain = self._bootstrap_server = None
        self._is_stopping = False
        try:
            self._process = subprocess.Popen(
                command_of("kwire", "server", *options, *overrides),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.PIPE,
                text=True,
                errors="backslashreplace",  # a path may contain any bytes
                env=environment(),
                start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which then stops the broker
            )
        except OSError as error:  # settings of more than 128 KiB
            raise BrokerFailedError(f"the broker's process cannot be started: {error.strerror}") from error
        _with_child.add(self)
        return self._wait_for_ready(self._process)

    def _wait_for_ready(self, process: subprocess.Popen[str]) -> str:
        """Return the bootstrap server. A start that prints progress may take any time."""
        ready = _Latch()
        self._last_output = _now()
        self._drain = threading.Thread(target=self._read, args=(process, ready), daemon=True)
        self._drain.start()
        while not ready.wait(_POLL_SECONDS):
            if _now() - self._last_output > START_SECONDS_MAX:
                self._kill_stuck(process, "start", START_SECONDS_MAX)
        if self._bootstrap_server is not None:
            return self._bootstrap_server
        process.wait()
        self._close(process)
        raise BrokerFailedError(self._last_lines[-1] if self._last_lines else _exit_reason(process.returncode))

    def _read(self, process: subprocess.Popen[str], ready: _Latch) -> None:
        """Read the broker's output, so that it never blocks on a full pipe; keep the last lines."""
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._last_output = _now()
                if self._bootstrap_server is None and line.startswith(READY_LINE):
                    self._bootstrap_server = line.removeprefix(READY_LINE).partition(",")[0]
                    ready.set()
                else:
                    self._last_lines.append(line.rstrip())
        finally:
            ready.set()

    def _kill_stuck(self, process: subprocess.Popen[str], phase: str, limit_seconds: float) -> NoReturn:
        """Kill a process that is stuck. Raises BrokerFailedError with its last lines."""
        process.kill()
        process.wait()
        if self._drain is not None:
            self._drain.join()
        self._close(process)
        raise BrokerFailedError(
            f"the broker's process was killed: its {phase} printed no progress for {limit_seconds:g} s{self._output()}"
        )

    def _output(self) -> str:
        return f"; its last lines:\n{chr(10).join(self._last_lines)}" if self._last_lines else ""

    def stop(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        has_ended = process.poll() is not None and not self._is_stopping
        self._is_stopping = True
        with contextlib.suppress(OSError, ValueError):  # it has ended, or received the line in an interrupted call
            process.stdin.write(LEAVE_QUORUM_LINE)
            process.stdin.flush()
        self._last_output = _now()
        process.terminate()
        while _is_running(process):
            if _now() - self._last_output > STOP_SECONDS_MAX:
                self._kill_stuck(process, "stop", STOP_SECONDS_MAX)
        if self._drain is not None:
            self._drain.join()
        self._close(process)
        if has_ended or process.returncode != 0:
            raise BrokerFailedError(f"{_exit_reason(process.returncode)}{self._output()}")

    def abandon(self) -> None:
        process = self._process
        if process is None:
            return
        process.kill()  # does nothing if it has ended
        process.wait()
        if self._drain is not None and self._drain.is_alive():
            self._drain.join()
        self._close(process)

    def close_pipe(self) -> None:
        """Close this process's ends of the pipes: a fork that kept them open would keep the broker running."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _close(self, process: subprocess.Popen[str]) -> None:
        _with_child.discard(self)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def _now() -> float:
    return time.monotonic()


def _is_running(process: subprocess.Popen[str]) -> bool:
    """Return False if the process ends within _POLL_SECONDS."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_POLL_SECONDS)
        return False
    return True


def _exit_reason(status: int) -> str:
    if status >= 0:
        return f"the broker's process ended with status {status}"
    return f"the broker's process was killed by {signal.Signals(-status).name}"


_with_child: WeakSet[_ProcessRunner] = WeakSet()


def _close_pipes_in_fork() -> None:
    for runner in list(_with_child):
        runner.close_pipe()
    _with_child.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_pipes_in_fork)

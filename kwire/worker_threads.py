"""Thread pool for calls that must not run on the event loop.

The standard library's pool rejects calls as soon as the main thread has ended, even while other threads of the program
still use the embedded broker.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple["Future[Any]", Callable[[], Any]]


_POOLS: WeakSet[WorkerThreads] = WeakSet()


class WorkerThreads(Executor):
    """Pool of at most threads_max daemon threads, which take calls in their order; each call may start one thread."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._is_shut_down = False
        self.begin()
        _POOLS.add(self)

    def begin(self) -> None:
        """Reset to no threads and no calls: initially, and in a fork, which has no threads."""
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in a thread of the pool. Raises RuntimeError after shutdown."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(f"{self._name} was shut down")
            self._add_thread()
            self._calls.put((future, lambda: fn(*args, **kwargs)))
        return future

    def _add_thread(self) -> None:
        """Start a thread if the pool is not full. Raises RuntimeError if that fails and there is no other thread."""
        if len(self._threads) == self._threads_max:
            return
        thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and wait for accepted ones unless they are cancelled."""
        with self._lock:
            self._is_shut_down = True
            if cancel_futures:
                self._cancel_all()
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _cancel_all(self) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                return
            if call is not None:
                call[0].cancel()

    def _work(self) -> None:
        while (queued := self._calls.get()) is not None:
            future, call = queued
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 raised to the caller through the future
                future.set_exception(error)
            else:
                future.set_result(result)
            del queued, future, call  # an idle thread must not keep the arguments of the last call alive


def _reset_pools() -> None:
    """Reset all pools in a fork, which has none of their threads."""
    for pool in list(_POOLS):
        pool.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pools)

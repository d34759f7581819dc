"""Calls in worker threads that live as long as the process."""

from __future__ import annotations

import os
import threading

import pytest

from kwire.worker_threads import WorkerThreads


def test_calls_run_on_a_bounded_number_of_threads() -> None:
    threads = WorkerThreads(2, "two")
    together = threading.Barrier(2)
    futures = [threads.submit(lambda: (together.wait(30), threading.current_thread().name)[1]) for _ in range(4)]
    assert {future.result(30) for future in futures} == {"two_0", "two_1"}
    threads.shutdown()
    assert not any(thread.is_alive() for thread in threads._threads)
    with pytest.raises(RuntimeError, match="two was shut down"):
        threads.submit(print)


def test_an_exception_of_a_call_is_raised_by_its_result() -> None:
    threads = WorkerThreads(1, "one")
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 1, 0).result(30)
    assert threads.submit(divmod, 7, 2).result(30) == (3, 1), "the thread goes on"
    threads.shutdown()


def test_a_queued_call_can_be_cancelled() -> None:
    threads = WorkerThreads(1, "one")
    begun, leave = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return leave.wait(30)

    running = threads.submit(wait)
    assert begun.wait(30)
    alone, others = threads.submit(print), [threads.submit(print) for _ in range(2)]
    assert alone.cancel()
    threads.shutdown(wait=False, cancel_futures=True)
    assert all(other.cancelled() for other in others)
    leave.set()
    assert running.result(30)
    threads.shutdown()


def test_starting_a_worker_thread_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = WorkerThreads(2, "two")

    def fails(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", fails)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.submit(print)
    assert threads.submit(lambda: 1).result(30) == 1
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", fails)
        assert threads.submit(lambda: 2).result(30) == 2, "the one that there is takes it"
    assert threads.submit(lambda: 3).result(30) == 3
    assert len(threads._threads) == 2
    threads.shutdown()


def test_a_fork_has_threads_of_its_own() -> None:
    threads = WorkerThreads(1, "one")
    threads.submit(print, end="").result(30)
    child = os.fork()
    if child == 0:
        os._exit(threads.submit(lambda: 7).result(30))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    threads.shutdown()

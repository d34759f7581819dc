"""An embedded broker and the threads of the program around it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import kwire

THREADS_GO_ON = """
import threading, kwire
broker = kwire.Broker().start()
def work():
    threading.main_thread().join()
    broker.stop()
    broker.start()
    print(broker.bootstrap_server)
    broker.stop()
threading.Thread(target=work).start()
"""


def test_the_broker_lives_as_long_as_any_thread_of_the_program() -> None:
    """The thread pools of the standard library end with the main thread; the broker must not depend on them."""
    command = [sys.executable, "-c", THREADS_GO_ON]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ":" in ended.stdout


def test_a_second_concurrent_start_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = kwire.Broker()
    inside, leave = threading.Event(), threading.Event()

    def start(settings: object) -> str:
        inside.set()
        assert leave.wait(30)
        return "localhost:1"

    monkeypatch.setattr(broker._runner, "start", start)
    thread = threading.Thread(target=broker.start)
    thread.start()
    assert inside.wait(30)
    with pytest.raises(RuntimeError, match="another thread"):
        broker.start()
    leave.set()
    thread.join()
    assert broker.bootstrap_server == "localhost:1"
    broker._release()

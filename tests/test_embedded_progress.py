"""Slow starts and stops of a broker in a process: kwire waits while the process reports progress, else kills it."""

from __future__ import annotations

import sys

import pytest

import kwire
from kwire import embedded
from kwire.embedded import READY_LINE, _ProcessRunner

SECONDS_A_LINE = 20.0
SPEAKS = "print('Recovering: 1 of 9 done', flush=True)\n" * 9
SERVES = f"print('{READY_LINE}127.0.0.1:1234, node 1', flush=True)\n"
WAITS = "import signal; signal.pause()\n"
STOPS_LATE = f"""
import signal, sys
def stop(*_):
    {"; ".join(SPEAKS.strip().splitlines())}
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
"""
IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


class Scene:
    """A broker whose process runs a given program; time advances when the process prints, or when the test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.broker = kwire.Broker(isolation="process")
        runner = self.broker._runner
        assert isinstance(runner, _ProcessRunner)
        self.runner = runner

    def run(self, program: str) -> None:
        self.patch.setattr(embedded, "command_of", lambda *_: [sys.executable, "-c", program])

    def pass_time_with_lines(self) -> None:
        """Let each line arrive 20 s after the previous one."""
        self.patch.setattr(embedded, "_now", lambda: SECONDS_A_LINE * len(self.runner._last_lines))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_start_that_prints_progress_is_not_killed(scene: Scene) -> None:
    scene.run(SPEAKS + SERVES + WAITS)
    scene.pass_time_with_lines()
    scene.broker.start()
    assert len(scene.runner._last_lines) * SECONDS_A_LINE > embedded.START_SECONDS_MAX
    scene.patch.undo()
    with pytest.raises(kwire.BrokerFailedError, match="SIGTERM"):
        scene.broker.stop()


def test_a_start_without_progress_is_killed_with_an_error(scene: Scene) -> None:
    scene.run(SPEAKS + WAITS)
    scene.patch.setattr(embedded, "START_SECONDS_MAX", 0)
    with pytest.raises(
        kwire.BrokerFailedError,
        match=r"was killed: its start printed no progress for 0 s",
    ):
        scene.broker.start()
    assert scene.runner._process is not None
    assert scene.runner._process.returncode is not None


def test_a_stop_that_prints_progress_is_not_killed(scene: Scene) -> None:
    scene.run(STOPS_LATE + SERVES + "signal.pause()")
    scene.broker.start()
    scene.pass_time_with_lines()
    scene.broker.stop()
    assert len(scene.runner._last_lines) * SECONDS_A_LINE > embedded.STOP_SECONDS_MAX


def test_a_stop_without_progress_is_killed_and_its_last_output_reported(scene: Scene) -> None:
    scene.run(IGNORES + SPEAKS + SERVES + "while True: signal.pause()")
    scene.broker.start()
    scene.patch.setattr(embedded, "STOP_SECONDS_MAX", 0)
    with pytest.raises(
        kwire.BrokerFailedError,
        match=r"(?s)was killed: its stop printed no progress for 0 s; its last lines:.*Recovering: 1 of 9 done",
    ):
        scene.broker.stop()

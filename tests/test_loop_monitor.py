"""Loop monitor: delays of the event loop are counted, and the log names their cause."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from kwire.chunks import is_many
from kwire.log.partition_log import PartitionLog
from kwire.loop_monitor import LONG_MS, TICK_MS, UNKNOWN, LoopFigures, LoopMonitor, kwire_stack
from tests.support.compiled import replaces_methods
from tests.support.requests import create_topic
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


class Ticks:
    """A monitor whose ticks happen at times that the test chooses."""

    def __init__(self) -> None:
        self.monitor = LoopMonitor()
        self._now_ms = 0.0
        self._cpu_ms = 0.0

    def late(self, late_ms: float, *, cpu_ms: float = 0.0) -> None:
        self._now_ms += TICK_MS + late_ms
        self._cpu_ms += cpu_ms
        self.monitor.tick(self._now_ms, self._cpu_ms)


def test_ticks_are_counted_by_their_delay() -> None:
    ticks = Ticks()
    assert ticks.monitor.figures() == LoopFigures(0, 0.0, 0.0)
    for _ in range(999):
        ticks.late(0.5)
    ticks.late(70)
    assert ticks.monitor.figures() == LoopFigures(1000, 70.0, 1.0)
    ticks.late(30)
    assert ticks.monitor.figures() == LoopFigures(1001, 70.0, 50.0)
    ticks.late(-5)  # a timer may fire slightly early
    assert ticks.monitor.figures().ticks == 1002


def test_a_tick_later_than_all_histogram_classes_is_counted() -> None:
    ticks = Ticks()
    ticks.late(60_000)
    assert ticks.monitor.figures() == LoopFigures(1, 60_000.0, inf)


def test_short_holds_are_not_logged_and_long_ones_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    ticks = Ticks()
    ticks.late(LONG_MS)
    assert not caplog.records
    ticks.late(250, cpu_ms=200)
    ticks.late(250, cpu_ms=200)
    (message,) = caplog.messages
    assert message == f"The event loop was held for 250 ms, 200 ms of them on a processor: {UNKNOWN}"


def test_only_frames_of_kwire_are_named() -> None:
    assert kwire_stack(None) is None
    assert kwire_stack(sys._getframe()) is None
    seen: list[str | None] = []

    def sizes() -> Iterator[int]:
        seen.append(kwire_stack(sys._getframe()))
        yield 1

    assert not is_many(sizes())
    assert seen[0] is not None
    assert seen[0].startswith("is_many (chunks.py:")


@replaces_methods
def test_row_49_a_broker_names_what_holds_its_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create_topic(client, name="t")
        monitor, housekeeping = broker.server._node.runtime.loop_monitor, broker.server._replicas.housekeeping
        assert monitor is not None
        eventually(lambda: monitor.figures().ticks > 0, "the first tick")
        (log,) = broker.server._replicas.logs.logs()
        release = threading.Event()

        def high_watermark_of(_: PartitionLog) -> int:
            assert release.wait(30)
            return 0

        monkeypatch.setattr(housekeeping, "_high_watermark_of", high_watermark_of)
        caller = threading.Thread(target=lambda: broker.call(lambda: housekeeping._apply_retention(log)))
        caller.start()
        eventually(lambda: monitor._seen is not None, "the monitor's look")
        before = monitor.figures().ticks
        eventually(lambda: time.monotonic() * 1000 > monitor._ticked_ms + TICK_MS + 2 * LONG_MS, "the tick to be late")
        release.set()
        caller.join()
        eventually(lambda: monitor.figures().ticks > before, "the late tick")
        assert monitor.figures().longest_ms > LONG_MS
    held = "Housekeeping._apply_retention (server/assembly/housekeeping.py:"
    assert any(held in message for message in caplog.messages)


def test_the_monitor_ends_with_its_broker(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        monitor = broker.server._node.runtime.loop_monitor
        assert monitor is not None
        assert not monitor._ended.is_set()
    assert monitor._ended.is_set()

"""Reload of a shard after a broken invariant; a shard that is closed during its load stops to load."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.coordinator.runtime import RELOAD_PAUSE_S
from kwire.coordinator.shard import Shard, ShardState, Write
from kwire.log.errors import NotReadyError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import Record, encode_batch
from tests.coordinator.shard_bench import Bench, Number, SumMachine, append, code_of, write
from tests.support.compiled import replaces_methods
from tests.virtual_loop import virtual_loop


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with virtual_loop() as loop:
        yield Bench(tmp_path / "state-0", loop)


class BrokenMachine(SumMachine):
    """Machine whose invariant breaks at a place that the test chooses."""

    breaks_at = ""

    def replay(self, record: Number, offset: int, producer_id: int) -> None:
        super().replay(record, offset, producer_id)
        assert record[0] != self.breaks_at

    def unloaded(self) -> None:
        super().unloaded()
        assert self.breaks_at != "unloading"

    def step(self) -> Write[Number, None]:
        self.numbers["a"] = 100
        raise KeyError(self.breaks_at)


def break_at(bench: Bench, place: str) -> Shard[Number, SumMachine]:
    """Return an active shard with a = 1 in its log; only its machine breaks."""
    machine = BrokenMachine()
    machine.breaks_at = place
    machines: Iterator[SumMachine] = iter([machine])
    bench.make = lambda: next(machines, None) or SumMachine()  # type: ignore[method-assign]
    bench.runtime.lead(bench.partition)
    shard = bench.runtime.active(0)
    assert shard.write(write("", ("a", 1))) == ""
    return shard


async def check_reloaded(bench: Bench, broken: Shard[Number, SumMachine], numbers: dict[str, int]) -> None:
    """Check that clients get retriable errors until the state equals the log's."""
    assert broken.state is ShardState.CLOSED
    assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await asyncio.sleep(RELOAD_PAUSE_S)
    await bench.runtime.loaded()
    assert bench.runtime.active(0).machine.numbers == numbers
    assert bench.runtime.active(0).write(write("goes on", ("z", 26))) == "goes on"


def check_said(caplog: pytest.LogCaptureFixture, times: int = 1) -> None:
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == times
    assert all(record.exc_info is not None for record in errors), "with the traceback"
    assert "its state is loaded again from its log" in errors[0].getMessage()


def test_a_broken_invariant_in_a_rule_reloads_the_shard(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shard = break_at(bench, "")

        def use() -> None:
            with shard:
                shard.machine.numbers["a"] = 100
                raise AssertionError

        assert code_of(use) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await check_reloaded(bench, shard, {"a": 1})
        check_said(caplog)

    bench.run(main)


def test_a_broken_invariant_after_an_append_reloads_the_shard(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shard = break_at(bench, "b")

        def use() -> None:
            with shard:
                shard.write(write("", ("b", 2)))

        assert code_of(use) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await check_reloaded(bench, shard, {"a": 1, "b": 2})
        check_said(caplog)

    bench.run(main)


def test_a_broken_invariant_in_a_timer_reloads_the_shard(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shard = break_at(bench, "")
        assert isinstance(shard.machine, BrokenMachine)
        shard.timers.schedule("step", 0, shard.machine.step)
        await asyncio.sleep(0.01)
        await check_reloaded(bench, shard, {"a": 1})
        check_said(caplog)

    bench.run(main)


def test_a_broken_invariant_in_a_commit_callback_reloads_the_shard(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        def fail(error: KafkaError | None) -> None:
            raise AssertionError(error)

        shard = break_at(bench, "unloading")
        bench.hold()
        stored = shard.write(write("stored", ("b", 2), outcome=fail))
        behind = shard.write(write("behind", ("c", 3)))
        last = shard.write(write("last", ("d", 4), outcome=fail))
        assert isinstance(stored, asyncio.Future)
        assert isinstance(behind, asyncio.Future)
        assert isinstance(last, asyncio.Future)
        bench.release()
        assert await stored == "stored"
        for waiting in (behind, last):
            with pytest.raises(KafkaError) as raised:
                await waiting
            assert raised.value.code is ErrorCode.NOT_COORDINATOR
        await check_reloaded(bench, shard, {"a": 1, "b": 2, "c": 3, "d": 4})
        check_said(caplog, times=3)

    bench.run(main)


@pytest.mark.parametrize("end", ["resign", "stop"])
def test_a_broken_invariant_in_unloading_does_not_stop_the_resignation(
    bench: Bench, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    async def main() -> None:
        shard = break_at(bench, "unloading")
        bench.hold()
        written = shard.write(write("", ("b", 2)))
        assert isinstance(written, asyncio.Future)
        if end == "stop":
            bench.runtime.stop()
        else:
            bench.runtime.resign(0)
        assert written.exception() is not None
        assert bench.runtime.find(0) is None
        check_said(caplog)

    bench.run(main)


@replaces_methods
def test_a_shard_is_loaded_when_its_logs_index_is_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        bench.runtime.lead(bench.partition)
        await bench.runtime.loaded()
        assert bench.runtime.active(0).write(write("", ("a", 1))) == ""
        bench.runtime.resign(0)
        read, steps = bench.partition.log.read, itertools.count(1)

        def read_when_ready(*asked: Any, **limits: Any) -> bytes:
            if next(steps) < 5:
                raise NotReadyError
            return read(*asked, **limits)

        monkeypatch.setattr(bench.partition.log, "read", read_when_ready)
        bench.runtime.lead(bench.partition)
        await bench.runtime.loaded()
        assert bench.runtime.active(0).machine.numbers == {"a": 1}
        assert next(steps) > 5

    bench.run(main)


def test_a_shard_that_resigned_is_not_reloaded(bench: Bench) -> None:
    async def main() -> None:
        shard = break_at(bench, "")
        with pytest.raises(KafkaError), shard:
            raise AssertionError
        bench.runtime.resign(0)
        await asyncio.sleep(2 * RELOAD_PAUSE_S)
        await bench.runtime.loaded()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR

    bench.run(main)


def test_a_broken_invariant_of_the_log_does_not_reload_the_shard(bench: Bench) -> None:
    async def main() -> None:
        shard = break_at(bench, "")
        with pytest.raises(AssertionError), shard:
            exec("assert False", {"__name__": "kwire.log.segment"})
        assert shard.state is ShardState.ACTIVE

    bench.run(main)


def test_a_shard_that_is_closed_while_it_loads_is_not_loaded_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        for start in range(0, 3000, 500):
            records = [Record(key=b"%d" % n, value=b"1", timestamp=0) for n in range(start, start + 500)]
            append(bench.partition, encode_batch(records))
        ticks = iter(range(0, 1_000_000, 6))
        monkeypatch.setattr(bench.clock, "monotonic_ms", lambda: float(next(ticks)))
        bench.runtime.lead(bench.partition)
        loading = bench.runtime.find(0)
        assert loading is not None
        while not loading.machine.numbers:
            await asyncio.sleep(0)
        loaded = len(loading.machine.numbers)
        assert loaded < 500
        bench.runtime.resign(0)
        await bench.runtime.loaded()
        assert len(loading.machine.numbers) == loaded
        assert loading.machine.life == ["unloaded"]

    bench.run(main)

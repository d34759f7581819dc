"""Simulation: processes, virtual time and checks."""

from __future__ import annotations

import asyncio

import pytest

from kwire.simulation import DeadlockError, Process, Simulation, UnhandledError


def test_no_code_of_a_killed_process_runs_again() -> None:
    said: list[str] = []

    async def work(process: Process) -> None:
        process.loop.call_later(5, said.append, "timer")
        try:
            await asyncio.sleep(5)
            said.append("task")
        finally:
            said.append("end")
            process.loop.call_soon(said.append, "soon")
            await asyncio.sleep(1)
            said.append("later")

    with Simulation() as simulation:
        process = simulation.host("a").start()
        process.run(work(process))
        job = process.run(process.workers.run(lambda: said.append("worker")))
        simulation.advance(0.000001)
        simulation.host("a").kill()
        simulation.advance(100)
        assert said == ["end"], "its coroutines were closed, and that is all"
        assert not job.done()
        assert not process.is_alive


def test_a_process_that_kills_itself_gets_no_further() -> None:
    said: list[str] = []

    async def work(simulation: Simulation) -> None:
        simulation.host("a").kill()
        said.append("still in this step")
        await asyncio.sleep(0)
        said.append("after it")

    with Simulation() as simulation:
        simulation.host("a").start().run(work(simulation))
        simulation.advance(1)
        assert said == ["still in this step"]


def test_an_hour_takes_no_time_and_clocks_differ() -> None:
    with Simulation() as simulation:
        fast = simulation.host("fast")
        fast.clock_rate = 1.1
        process = fast.start()
        begun = process.clock.wall_ms()
        waiting = process.run(asyncio.sleep(3600, "done"))
        simulation.advance(3600 / 1.1 - 0.001)
        assert not waiting.done()
        simulation.advance(0.002)
        assert waiting.result() == "done"
        assert process.clock.monotonic_ms() == pytest.approx(3_600_001, abs=1)
        fast.jump(-100)
        assert process.clock.wall_ms() - begun == pytest.approx(3_500_001, abs=2)
        assert process.clock.monotonic_ms() == pytest.approx(3_600_001, abs=1)


def test_timers_that_expire_in_a_pause_fire_at_its_end() -> None:
    moments: list[float] = []

    async def tick(simulation: Simulation) -> None:
        while True:
            await asyncio.sleep(1)
            moments.append(round(simulation.now, 3))

    with Simulation() as simulation:
        host = simulation.host("a")
        host.start().run(tick(simulation))
        simulation.advance(2.5)
        host.pause()
        simulation.advance(5)
        host.resume()
        simulation.advance(2.1)
    assert moments == [1, 2, 7.5, 8.5, 9.5]


def test_waiting_for_nothing_raises_deadlock_error() -> None:
    with Simulation() as simulation:

        async def wait() -> None:
            await asyncio.get_running_loop().create_future()

        with pytest.raises(DeadlockError):
            simulation.run(wait())
        with pytest.raises(TimeoutError):
            simulation.run(wait(), seconds=10)
        assert simulation.now == pytest.approx(10, abs=0.001)


def test_checks_run_after_events_and_end_the_run() -> None:
    seen: list[int] = []

    def check() -> None:
        seen.append(simulation.timeline.events)
        assert simulation.now < 3, "too late"

    with Simulation() as simulation:
        counts: list[int] = []
        simulation.check_after_each_event(check)
        simulation.check_every(3, lambda: counts.append(simulation.timeline.events))
        with pytest.raises(AssertionError, match="too late") as failed:
            simulation.run(_steps())
        assert seen == list(range(1, len(seen) + 1))
        assert counts == [number for number in seen[:-1] if number % 3 == 0]
        assert simulation.now == pytest.approx(3, abs=0.001)
    assert failed.value.__traceback__ is not None


async def _steps() -> None:
    for _ in range(5):
        await asyncio.sleep(1)


def test_an_exception_in_a_callback_ends_the_run(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation(5) as simulation:
        process = simulation.host("a").start()
        process.loop.call_soon([].pop)
        with pytest.raises(UnhandledError, match=r"seed 5.*IndexError"):
            simulation.advance(1)
    assert "pop" in caplog.text


def test_a_failure_names_its_seed() -> None:
    with pytest.raises(ValueError, match="mine") as failed, Simulation(77):
        raise ValueError("mine")
    assert "seed 77" in failed.value.__notes__[0]


def test_clock_and_random_are_simulated_during_a_run() -> None:
    import random
    import time

    async def look() -> tuple[float, float, float]:
        before = time.monotonic()
        await asyncio.sleep(3600)
        return time.monotonic() - before, time.time(), random.random()

    seen = []
    for _ in range(2):
        with Simulation(3, own_machine=True) as simulation:
            seen.append(simulation.run(look()))
    assert seen[0] == seen[1]
    assert seen[0][0] == pytest.approx(3600)
    assert abs(time.time() - seen[0][1]) > 1_000_000
    assert time.time.__name__ == "time"

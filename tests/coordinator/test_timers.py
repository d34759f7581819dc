"""Named timers: scheduled, replaced and cancelled by name."""

from __future__ import annotations

import asyncio

from kwire.coordinator.timers import Timers
from tests.virtual_loop import virtual_loop


def test_timers_fire_at_their_deadlines_in_order() -> None:
    taken: list[tuple[float, str]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        timers: Timers[str] = Timers(lambda step: taken.append((loop.time(), step)))
        timers.schedule("b", 200, "second")
        timers.schedule("a", 100, "first")
        await asyncio.sleep(1)
        assert len(timers) == 0

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert taken == [(0.1, "first"), (0.2, "second")]


def test_a_rescheduled_timer_fires_at_its_new_deadline() -> None:
    taken: list[tuple[float, str]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        timers: Timers[str] = Timers(lambda step: taken.append((round(loop.time(), 6), step)))
        timers.schedule("later", 100, "old")
        timers.schedule("later", 300, "new")
        timers.schedule("sooner", 300, "old")
        timers.schedule("sooner", 50, "new")
        await asyncio.sleep(1)

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert taken == [(0.05, "new"), (0.3, "new")]


def test_a_cancelled_timer_does_not_fire() -> None:
    taken: list[str] = []

    async def main() -> None:
        timers: Timers[str] = Timers(taken.append)
        timers.schedule("a", 100, "a")
        timers.schedule("b", 100, "b")
        timers.cancel("a")
        timers.cancel("unknown")
        assert "a" not in timers
        assert "b" in timers
        timers.cancel_all()
        await asyncio.sleep(1)

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert taken == []


def test_a_step_may_schedule_itself_again() -> None:
    times: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def run(step: str) -> None:
            times.append(round(loop.time(), 6))
            timers.schedule("tick", 100, step)

        timers: Timers[str] = Timers(run)
        timers.schedule("tick", 100, "tick")
        await asyncio.sleep(0.35)
        timers.cancel_all()

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert times == [0.1, 0.2, 0.3]

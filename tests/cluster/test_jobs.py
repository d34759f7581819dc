"""Jobs in stages on workers: concurrency, order, and the effects of a failure or a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from kwire.cluster.jobs import run_stages
from kwire.log.jobs import Stage

T = TypeVar("T")


class HeldWorkers:
    """Workers that hold each call until it is released."""

    def __init__(self) -> None:
        self.held: list[asyncio.Future[None]] = []

    async def run(self, call: Callable[[], T]) -> T:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held.append(gate)
        await gate
        return call()

    def close(self) -> None:
        """Do nothing: no thread runs."""

    async def let_go(self) -> None:
        """Run the calls that are held."""
        held, self.held = self.held, []
        for gate in held:
            gate.set_result(None)
        await turn()


async def turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Noted:
    """A job that records the calls of its methods."""

    def __init__(self, name: str, said: list[str]) -> None:
        self.name = name
        self.said = said
        said.append(f"made {name}")

    def run(self) -> None:
        self.said.append(f"run {self.name}")

    def finish(self) -> None:
        self.said.append(f"finished {self.name}")
        if self.name == "bad":
            raise ValueError(self.name)


def stage_of(names: str, said: list[str]) -> Stage:
    for name in names.split():
        yield Noted(name, said)


def stages_of(said: list[str], *stages: str) -> Iterator[Stage]:
    for names in stages:
        yield stage_of(names, said)


def test_no_more_jobs_are_made_than_may_run_at_once() -> None:
    async def scene() -> None:
        workers, said = HeldWorkers(), list[str]()
        running = asyncio.ensure_future(run_stages(stages_of(said, "a b c"), workers, at_once=2))
        await turn()
        assert said == ["made a", "made b"]
        await workers.let_go()
        assert said[2:] == ["run a", "finished a", "made c", "run b", "finished b"]
        await workers.let_go()
        await running

    asyncio.run(scene())


def test_a_stage_begins_when_the_one_before_it_has_ended() -> None:
    async def scene() -> None:
        workers, said = HeldWorkers(), list[str]()
        running = asyncio.ensure_future(run_stages(stages_of(said, "a", "b"), workers, at_once=2))
        await turn()
        assert said == ["made a"]
        await workers.let_go()
        assert said == ["made a", "run a", "finished a", "made b"]
        await workers.let_go()
        await running

    asyncio.run(scene())


def test_cancelled_stages_end_after_their_running_jobs() -> None:
    async def scene() -> None:
        workers, said = HeldWorkers(), list[str]()
        running = asyncio.ensure_future(run_stages(stages_of(said, "a b c d"), workers, at_once=2))
        await turn()
        running.cancel()
        await turn()
        assert not running.done()
        await workers.let_go()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert said[2:] == ["run a", "finished a", "run b", "finished b"]

    asyncio.run(scene())


def test_an_error_is_raised_after_the_jobs_that_run_and_no_other_begins() -> None:
    async def scene() -> None:
        workers, said = HeldWorkers(), list[str]()
        running = asyncio.ensure_future(run_stages(stages_of(said, "bad b c d", "e"), workers, at_once=2))
        await turn()
        await workers.let_go()
        await workers.let_go()
        with pytest.raises(ValueError, match="bad"):
            await running
        assert "made e" not in said
        assert said.count("finished b") == 1
        assert [f"finished {name}" in said for name in "cd"] == [f"made {name}" in said for name in "cd"]

    asyncio.run(scene())

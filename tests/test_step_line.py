"""Work in steps: each turn of the loop runs one step of all works, in the order of two lanes."""

from __future__ import annotations

import asyncio

import pytest

from kwire.chunks import Pieces, in_turns, step_line
from tests.virtual_loop import virtual_loop


def pieces(done: list[str], name: str, count: int) -> Pieces[str]:
    for number in range(count):
        done.append(f"{name}{number}")
        yield
    return name


def test_one_step_of_all_works_runs_in_each_loop_iteration() -> None:
    done: list[str] = []
    most = 0

    async def main() -> None:
        nonlocal most
        works = asyncio.gather(*(in_turns(pieces(done, name, 3)) for name in "abcd"))
        await asyncio.sleep(0)  # each work has done its first step
        assert done == ["a0", "b0", "c0", "d0"]
        while not works.done():
            before = len(done)
            await asyncio.sleep(0)
            most = max(most, len(done) - before)
        assert works.result() == ["a", "b", "c", "d"]

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert most == 1
    assert done[4:] == ["a1", "b1", "c1", "d1", "a2", "b2", "c2", "d2"]


def test_preferred_steps_get_every_other_turn() -> None:
    done: list[str] = []

    async def main() -> None:
        clients = [in_turns(pieces(done, name, 5)) for name in "abcd"]
        controller = in_turns(pieces(done, "P", 5), is_preferred=True)
        await asyncio.gather(*clients, controller)

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert done[:5] == ["a0", "b0", "c0", "d0", "P0"]
    assert done[5:13] == ["P1", "a1", "P2", "b1", "P3", "c1", "P4", "d1"]
    assert done[13:] == [f"{name}{number}" for number in (2, 3, 4) for name in "abcd"]


def test_a_step_that_fails_does_not_stop_the_line() -> None:
    done: list[str] = []

    def fails() -> None:
        raise ValueError("no")

    async def main() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        step_line().add(fails)
        step_line().add(lambda: done.append("next"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert [str(error) for error in reported] == ["no"]

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert done == ["next"]


def test_a_cancelled_work_does_not_block_others() -> None:
    done: list[str] = []

    async def main() -> None:
        first = asyncio.ensure_future(in_turns(pieces(done, "a", 3)))
        second = asyncio.ensure_future(in_turns(pieces(done, "b", 3)))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "b"
        with pytest.raises(asyncio.CancelledError):
            await first

    with virtual_loop() as loop:
        loop.run_until_complete(main())
    assert done == ["a0", "b0", "b1", "b2"]

"""Running the stages of kwire.log.jobs: several jobs at once on workers, and the event loop stays free."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kwire.log.jobs import Stage
from kwire.seams import Workers


async def run_stages(stages: Iterable[Stage], workers: Workers, *, at_once: int) -> None:
    """Run all jobs, at most `at_once` of them at the same time. Raises what making or finishing a job raises.

    When it is cancelled, or a job raises, it returns only after the jobs that have begun.
    """
    for stage in stages:
        await _run(stage, workers, at_once)


async def _run(stage: Stage, workers: Workers, at_once: int) -> None:
    loop = asyncio.get_running_loop()
    lanes = [loop.create_task(_run_lane(stage, workers)) for _ in range(at_once)]
    try:
        await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)  # which cancels none of them
    finally:
        stage.close()  # a lane that runs a job ends with it
        await asyncio.wait(lanes)
    for lane in lanes:
        lane.result()


async def _run_lane(stage: Stage, workers: Workers) -> None:
    for job in stage:
        await workers.run(job.run)
        job.finish()

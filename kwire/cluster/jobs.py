"""Runs the stages of kwire.log.jobs: several jobs at the same time on workers, without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kwire.log.jobs import Stage
from kwire.seams import Workers


async def run_stages(stages: Iterable[Stage], workers: Workers, *, at_once: int) -> None:
    """Run all jobs, at most `at_once` at the same time. Raises what making or finishing a job raises.

    If it is cancelled or a job raises, it returns only after the started jobs have ended.
    """
    for stage in stages:
        await _run(stage, workers, at_once)


async def _run(stage: Stage, workers: Workers, at_once: int) -> None:
    loop = asyncio.get_running_loop()
    lanes = [loop.create_task(_run_lane(stage, workers)) for _ in range(at_once)]
    try:
        await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)  # asyncio.wait cancels none of them
    finally:
        stage.close()  # a lane that runs a job ends after that job
        await asyncio.wait(lanes)
    for lane in lanes:
        lane.result()


async def _run_lane(stage: Stage, workers: Workers) -> None:
    for job in stage:
        await workers.run(job.run)
        job.finish()

"""Work in steps of which workers do the part that waits for the disk: how logs are closed, and how a start opens them.

A stage is an iterator of jobs. It makes each job when the driver asks for it, on the event loop. Jobs of one stage may
run at the same time; a stage begins when the one before it has ended. kwire.cluster.jobs drives stages with workers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Protocol


class Job(Protocol):
    """One piece of work."""

    def run(self) -> None:
        """Do the part that waits for the disk. A worker may call it; a failure is kept for finish."""

    def finish(self) -> None:
        """Store the result, on the event loop."""


Stage = Generator[Job, None, None]


def run_here(stages: Iterable[Stage]) -> None:
    """Run all jobs one after another, here and now."""
    for stage in stages:
        for job in stage:
            job.run()
            job.finish()

"""Jobs for closing and opening logs: workers do the part that waits for the disk.

A stage is an iterator of jobs. It creates each job on the event loop, when the driver requests it. Jobs of one stage
may run at the same time; a stage begins when the previous one has ended. kwire.cluster.jobs drives stages with workers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Protocol


class Job(Protocol):
    """Unit of work in two parts."""

    def run(self) -> None:
        """Do the part that waits for the disk. A worker may call it; finish handles a failure."""

    def finish(self) -> None:
        """Store the result, on the event loop."""


Stage = Generator[Job, None, None]


def run_here(stages: Iterable[Stage]) -> None:
    """Run all jobs synchronously, one after another."""
    for stage in stages:
        for job in stage:
            job.run()
            job.finish()

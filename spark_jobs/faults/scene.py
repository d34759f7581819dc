"""Scene of a round: brokers, driver, topics and stream, as the faults find them while the queries run."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.faults.brokers import OneBroker, ThreeBrokers
from spark_jobs.faults.driver import Driver
from spark_jobs.faults.job import COPIES, Job
from spark_jobs.faults.reading import Offsets, numbers_in, read_by
from spark_jobs.faults.rounds import Round

POLL_SECONDS = 0.02
MOMENT_SECONDS_MAX = 5.0
"""Latest moment of a fault after the first batch has begun."""


@dataclass(slots=True)
class Scene:
    """State of a round that its faults share."""

    plan: Round
    site: Any
    driver: Driver
    job: Job
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the disturbed run has ended."""
    read: dict[str, Offsets] = field(default_factory=dict)
    """For each query, what it had read before records could be deleted."""
    is_deleted: bool = False
    """True after records of the input were deleted."""

    @property
    def one_broker(self) -> OneBroker:
        assert isinstance(self.site, OneBroker)
        return self.site

    @property
    def three_brokers(self) -> ThreeBrokers:
        assert isinstance(self.site, ThreeBrokers)
        return self.site

    @property
    def input(self) -> str:
        return self.job.config.input

    @property
    def checkpoint(self) -> Path:
        return Path(self.job.config.checkpoint)

    @property
    def queries(self) -> tuple[str, ...]:
        return (*self.job.config.queries, COPIES)

    def moment(self, random_source: Random) -> bool:
        """Wait for a random moment of the run; return False if the run has ended before."""
        while not numbers_in(self.checkpoint / "raw" / "offsets"):
            if self.ended.wait(POLL_SECONDS):
                return False
        return not self.ended.wait(random_source.uniform(0, MOMENT_SECONDS_MAX))

    def note_read(self) -> None:
        """Note what each query has read, before records are deleted."""
        self.is_deleted = True
        self.read = {query: read_by(self.checkpoint, query, self.input) for query in self.queries}

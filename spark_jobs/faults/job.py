"""Job of a driver: a run of the pipeline's queries, and of one that copies the input, over what is there."""

from dataclasses import dataclass

from spark_jobs.faults.points import Point
from spark_jobs.pipeline.config import Config

COPIES = "copies"
"""Name of the query that copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Run of all queries over what is there."""

    config: Config
    copies: str
    """Topic of the copies."""
    point: Point | None = None
    """Point at which the driver is killed."""

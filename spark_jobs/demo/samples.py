"""Samples of running queries over time, for the view and the report."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.pipeline.progress import late_rows, offsets_behind


class Sample(NamedTuple):
    """State of one query after a batch."""

    seconds: float
    """Time since the beginning."""
    query: str
    batch: int
    rows: int
    rows_per_second: float
    batch_seconds: float
    behind: int
    """Offsets of the source that the query has not read."""
    state_rows: int
    late: int
    dead_letters: int


def sample(seconds: float, name: str, progress: dict[str, Any]) -> Sample:
    """Return the sample of a progress, as Spark reports it."""
    events = (progress.get("observedMetrics") or {}).get("events")
    return Sample(
        seconds=seconds,
        query=name,
        batch=progress["batchId"],
        rows=progress["numInputRows"],
        rows_per_second=progress["processedRowsPerSecond"] or 0.0,
        batch_seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        behind=offsets_behind(progress),
        state_rows=sum(each["numRowsTotal"] for each in progress["stateOperators"]),
        late=late_rows(progress),
        dead_letters=0 if events is None else events["dead_letters"],
    )


@dataclass(slots=True)
class Samples:
    """Samples of all queries."""

    begun: float = field(default_factory=time.monotonic)
    taken: list[Sample] = field(default_factory=list)
    sent: list[tuple[float, int]] = field(default_factory=list)
    """Events that the generator has sent, by seconds since the beginning."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _batches: dict[str, str] = field(default_factory=dict)
    """Newest progress of each query, by its run and batch."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def take(self, queries: Sequence[StreamingQuery]) -> None:
        """Add a sample of each query that has ended another batch."""
        for query in queries:
            progress = query.lastProgress
            if progress is None:
                continue
            batch = f"{progress['runId']}-{progress['batchId']}-{progress['timestamp']}"
            if self._batches.get(query.name) != batch:
                self._batches[query.name] = batch
                self.taken.append(sample(self.seconds, query.name.rpartition("-")[2], progress))

    def count(self, events: int) -> None:
        """Add the events of a transaction."""
        with self.lock:
            self.sent.append((self.seconds, (self.sent[-1][1] if self.sent else 0) + events))

    def newest(self) -> dict[str, Sample]:
        """Return the newest sample of each query."""
        return {each.query: each for each in self.taken}

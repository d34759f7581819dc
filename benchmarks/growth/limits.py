"""Large numbers of partitions that one broker must support: 50,000 with records, 100,000 that start."""

import time
from pathlib import Path

from benchmarks.brokers import Run
from benchmarks.growth.partitions import create_all, seconds_until_served, write_to_all
from benchmarks.growth.probes import GrowthRun, make_used, settle, stop_seconds

WORKING, STARTING = 50_000, 100_000


def limits(name: str) -> dict[str, float]:
    """Measure one broker with 50,000 partitions and records in each, then with 100,000; return the figures by name."""
    with GrowthRun(name) as run:
        make_used(run)
        figures = _working(run)
        _, seconds = create_all(run, STARTING - WORKING, prefix="more")
        settle(run)
        figures[f"{STARTING - WORKING:,} more partitions created, s"] = seconds
        figures[f"{STARTING:,} partitions, clean stop, s"] = stop_seconds(run)
        figures[f"{STARTING:,} partitions, start until one takes a record, s"] = seconds_until_served(run)
        settle(run)
        figures[f"{STARTING:,} partitions, memory, MB"] = run.resident_megabytes()
        figures[f"{STARTING:,} partitions, descriptors"] = _descriptors(run)
        return figures


def _working(run: Run) -> dict[str, float]:
    topics, created = create_all(run, WORKING - 1)
    started = time.perf_counter()
    write_to_all(run, topics)
    written = time.perf_counter() - started
    started = time.perf_counter()
    write_to_all(run, topics)
    return {
        f"{WORKING:,} partitions created, s": created,
        f"{WORKING:,} partitions, first record in each, s": written,
        f"{WORKING:,} partitions, second record in each, s": time.perf_counter() - started,
    }


def _descriptors(run: Run) -> float:
    assert run.broker.process is not None
    return float(sum(1 for _ in Path(f"/proc/{run.broker.process.pid}/fd").iterdir()))

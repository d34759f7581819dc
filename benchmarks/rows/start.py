"""From exec to the first answer, and what a broker holds while nobody asks for anything."""

import time
from collections.abc import Mapping

from benchmarks.brokers import Run

SETTLE_SECONDS = 2.0


def start(run: Run) -> Mapping[str, float]:
    """Seconds until ApiVersions is answered; memory when nothing has happened."""
    time.sleep(SETTLE_SECONDS)
    return {"start to first answer, s": run.start_seconds, "memory idle, MB": run.resident_megabytes()}


def memory_after_load(run: Run) -> Mapping[str, float]:
    """Memory behind all rows before this one."""
    time.sleep(SETTLE_SECONDS)
    return {"memory after load, MB": run.resident_megabytes()}

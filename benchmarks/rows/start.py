"""Time from exec to the first response, and memory of an idle broker."""

import time
from collections.abc import Mapping

from benchmarks.brokers import Run

SETTLE_SECONDS = 2.0


def start(run: Run) -> Mapping[str, float]:
    """Measure the seconds until ApiVersions is answered, and the memory of a broker that has served nothing else."""
    time.sleep(SETTLE_SECONDS)
    return {"start to first answer, s": run.start_seconds, "memory idle, MB": run.resident_megabytes()}


def memory_after_load(run: Run) -> Mapping[str, float]:
    """Measure the memory after all earlier rows."""
    time.sleep(SETTLE_SECONDS)
    return {"memory after load, MB": run.resident_megabytes()}

"""Many seeds of the quorum's scenario, on two cores."""

from __future__ import annotations

import logging
import multiprocessing
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from tests.simulation.quorum import Outcome, run_seed

WORKERS = 2


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a seed: an outcome, or why it failed."""

    seed: int
    outcome: Outcome | None = None
    failure: str = ""


def _run(seed: int) -> Result:
    logging.disable(logging.CRITICAL)  # of nodes that fail as they should
    try:
        return Result(seed, run_seed(seed))
    except Exception as error:  # noqa: BLE001 whatever it is, it is told
        return Result(seed, failure="".join(traceback.format_exception(error)))


def run_many(seeds: Iterable[int]) -> Iterator[Result]:
    """Each seed's result, as they end. In new processes: nothing of this one can change what a seed does."""
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        for job in as_completed([pool.submit(_run, seed) for seed in seeds]):
            yield job.result()

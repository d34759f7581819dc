"""Many seeds of a scenario, on two cores."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import threading
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

WORKERS = 2
Scenario = Literal["quorum", "cluster"]
"""A module of tests.simulation with a function `run_seed`."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a seed: an outcome, or why it failed."""

    seed: int
    outcome: Any = None
    failure: str = ""


def _run(scenario: Scenario, seed: int) -> Result:
    logging.disable(logging.CRITICAL)  # of nodes that fail as they should
    try:
        return Result(seed, importlib.import_module(f"tests.simulation.{scenario}").run_seed(seed))
    except Exception as error:  # noqa: BLE001 whatever it is, it is told
        return Result(seed, failure="".join(traceback.format_exception(error)))


def _end_with_parent() -> None:
    """A campaign that is killed leaves no workers behind."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run_many(scenario: Scenario, seeds: Iterable[int]) -> Iterator[Result]:
    """Each seed's result, as they end. In new processes: nothing of this one can change what a seed does."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn, initializer=_end_with_parent) as pool:
        for job in as_completed([pool.submit(partial(_run, scenario), seed) for seed in seeds]):
            yield job.result()

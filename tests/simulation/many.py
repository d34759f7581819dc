"""Runner of many seeds of a scenario on two cores."""

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
"""Name of a module in tests.simulation with a function `run_seed`."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a seed: an outcome, or the reason of its failure."""

    seed: int
    outcome: Any = None
    failure: str = ""


def _run(scenario: Scenario, seed: int) -> Result:
    logging.disable(logging.CRITICAL)  # failures of nodes are expected
    try:
        return Result(seed, importlib.import_module(f"tests.simulation.{scenario}").run_seed(seed))
    except Exception as error:  # noqa: BLE001 whatever it is, it is told
        return Result(seed, failure="".join(traceback.format_exception(error)))


def _end_with_parent() -> None:
    """End this worker if the campaign's process is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run_many(scenario: Scenario, seeds: Iterable[int]) -> Iterator[Result]:
    """Yield each seed's result as it ends. Each runs in a new process, so that earlier runs have no influence."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn, initializer=_end_with_parent) as pool:
        for job in as_completed([pool.submit(partial(_run, scenario), seed) for seed in seeds]):
            yield job.result()

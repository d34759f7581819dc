"""Number of seeds of a simulated scenario until each planted bug is found.

From each of several starting seeds, seeds run in order until one fails. The page of planted bugs is generated from the
recorded results, and `make test-long` runs one known seed for each bug.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import re
import statistics
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from kwire.cluster.directory import DirectoryRejected
from tests.planted.bug import PlantedBug
from tests.simulation.many import Scenario

STARTS: Final = (1000, 2000, 3000, 4000, 5000)
MEDIAN_MAX: Final = 200
SEEDS_MAX: Final = 500
"""Maximum number of seeds from one start."""
AT_ONCE: Final = 2
PLANTS: Final = f"{os.sep}planted{os.sep}"
RULE: Final = re.compile(r"[A-Z]\d+(?=: )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Result for one bug."""

    counts: list[int]
    """Number of seeds until a failure, from each start; SEEDS_MAX + 1 without one."""
    seeds: list[int]
    """Seeds that failed."""
    rules: list[str]
    """Rules that failed, one for each failing seed."""
    quickest: int
    """Seed with the shortest time to failure."""

    @property
    def median(self) -> float:
        return statistics.median(self.counts)

    @property
    def most(self) -> int:
        return max(self.counts)


@dataclass(frozen=True, slots=True)
class Search:
    """Search for the bugs of one scenario."""

    scenario: Scenario
    bugs: dict[str, PlantedBug]
    name: str = ""
    """Name of the search if it is not the only one of its scenario."""
    seconds: float | None = None
    """Virtual time of a seed; None for the default of the scenario."""
    starts: Sequence[int] = STARTS

    @property
    def title(self) -> str:
        return self.name or self.scenario

    @property
    def _path(self) -> Path:
        return Path(__file__).with_name(f"{self.title}_seeds.json")

    def broken_rule(self, seed: int) -> str | None:
        """Return the rule that a seed breaks, or None."""
        try:
            run_seed = importlib.import_module(f"tests.simulation.{self.scenario}").run_seed
            run_seed(seed) if self.seconds is None else run_seed(seed, self.seconds)
        except Exception as error:  # noqa: BLE001 a bug may break anything
            _reject_broken_plant(error)
            return _rule(error)
        return None

    def finds_again(self, name: str, patch: pytest.MonkeyPatch, *, tries: int) -> bool:
        """Plant a bug and run a seed that found it before, then other seeds; return True if one fails.

        Other changes of the code may change the runs of the seeds.
        """
        self.bugs[name].plant(patch)
        seeds = chain([self.recorded()[name].quickest], range(tries))
        return any(self.broken_rule(seed) for seed in seeds)

    def measure(self, name: str, starts: Sequence[int] = STARTS) -> Found:
        """Run seeds with the bug in the code, from each start until one fails."""
        logging.disable(logging.CRITICAL)
        counts, seeds, rules, seconds = [], [], [], []
        with pytest.MonkeyPatch.context() as patch:
            self.bugs[name].plant(patch)
            for start in starts:
                for count in range(1, SEEDS_MAX + 1):
                    began = time.process_time()
                    rule = self.broken_rule(start + count - 1)
                    if rule is not None:
                        seconds.append(time.process_time() - began)
                        counts.append(count)
                        seeds.append(start + count - 1)
                        rules.append(rule)
                        break
                else:
                    counts.append(SEEDS_MAX + 1)
        quickest = min(zip(seconds, seeds, strict=True), default=(0.0, 0))[1]
        return Found(counts=counts, seeds=seeds, rules=rules, quickest=quickest)

    def recorded(self) -> dict[str, Found]:
        """Return the last recorded results."""
        content: dict[str, dict[str, Any]] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return {name: Found(**found) for name, found in content.items()}

    def record(self, name: str, found: Found) -> None:
        """Record a result in the file."""
        results = self.recorded() | {name: found}
        ordered = {known: asdict(results[known]) for known in self.bugs if known in results}
        self._path.write_text(json.dumps(ordered, indent=1) + "\n")

    def main(self, text: str | None) -> None:
        """Run the command line."""
        parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--bug", action="append", choices=list(self.bugs), metavar="NAME")
        parser.add_argument("--starts", type=int, default=len(self.starts), help="how many starting seeds")
        parser.add_argument("--at-once", type=int, default=AT_ONCE)
        chosen = parser.parse_args()
        names = chosen.bug or list(self.bugs)
        with ProcessPoolExecutor(chosen.at_once) as pool:
            measure = partial(self.measure, starts=self.starts[: chosen.starts])
            jobs = {pool.submit(measure, name): name for name in names}
            for job in as_completed(jobs):
                name, found = jobs[job], job.result()
                self.record(name, found)
                print(f"{name}: {found.counts}, {sorted(set(found.rules))}", flush=True)


def _rule(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, TimeoutError):
        return "Q13"  # the scenario does not end
    if isinstance(error, AssertionError) and (rule := RULE.match(text)):
        return "an assertion of kwire's own" if "found itself broken" in text else rule[0]
    if isinstance(error, AssertionError):
        return "an assertion of kwire's own" if "unhandled in the simulation" in text else "what a client was told"
    return "a node does not start" if isinstance(error, DirectoryRejected) else type(error).__name__


def _reject_broken_plant(error: BaseException) -> None:
    """Raise if the plant itself failed, because such an error detects no bug."""
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    frames = traceback.extract_tb(first.__traceback__)
    if frames and PLANTS in frames[-1].filename:
        raise RuntimeError("the plant itself fails") from error

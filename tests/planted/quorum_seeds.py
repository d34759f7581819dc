"""How many seeds of the simulated quorum it takes to find each planted bug.

    python -m tests.planted.quorum_seeds                 measure all: hours; writes quorum_seeds.json
    python -m tests.planted.quorum_seeds --bug NAME      one bug

From each of several starting seeds on, one seed after the other is run until one fails. The page of planted bugs is
made from what is written down, and `make test` runs one seed of each bug that is known to find it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from kwire.cluster.directory import DirectoryRefused
from tests.planted.quorum_bugs import QUORUM_BUGS
from tests.simulation.quorum import run_seed

RESULTS: Final = Path(__file__).with_name("quorum_seeds.json")
STARTS: Final = (1000, 2000, 3000, 4000, 5000)
SEEDS_MAX: Final = 500
AT_ONCE: Final = 2
PLANTS: Final = f"{os.sep}planted{os.sep}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of one bug."""

    counts: list[int]
    """From each start, how many seeds until one failed; SEEDS_MAX + 1 when none did."""
    seeds: list[int]
    """Those that failed."""
    rules: list[str]
    """What they failed by."""
    quickest: int
    """The seed that took the least time to fail."""

    @property
    def median(self) -> float:
        return statistics.median(self.counts)

    @property
    def most(self) -> int:
        return max(self.counts)


def broken_rule(seed: int) -> str | None:
    """What a seed fails by; None if it does not."""
    try:
        run_seed(seed)
    except Exception as error:  # noqa: BLE001 a bug may break anything
        _refuse_broken_plant(error)
        return _rule(error)
    return None


def _rule(error: BaseException) -> str:
    text = str(error)
    name = text.partition(":")[0]
    if isinstance(error, TimeoutError):
        return "Q13"  # the scenario does not end
    if isinstance(error, AssertionError) and name.startswith("Q"):
        return "an assertion of kwire's own" if "found itself broken" in text else name
    return "a node does not start" if isinstance(error, DirectoryRefused) else type(error).__name__


def _refuse_broken_plant(error: BaseException) -> None:
    """What the plant itself raises finds nothing."""
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    frames = traceback.extract_tb(first.__traceback__)
    if frames and PLANTS in frames[-1].filename:
        raise RuntimeError("the plant itself fails") from error


def measure(name: str, starts: Sequence[int] = STARTS) -> Found:
    """Run seeds with the bug in the code, from each start on until one fails."""
    logging.disable(logging.CRITICAL)
    counts, seeds, rules, seconds = [], [], [], []
    with pytest.MonkeyPatch.context() as patch:
        QUORUM_BUGS.bugs[name].plant(patch)
        for start in starts:
            for count in range(1, SEEDS_MAX + 1):
                began = time.process_time()
                rule = broken_rule(start + count - 1)
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


def recorded() -> dict[str, Found]:
    """What was measured last."""
    content: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {name: Found(**found) for name, found in content.items()}


def _record(name: str, found: Found) -> None:
    results = recorded() | {name: found}
    ordered = {known: asdict(results[known]) for known in QUORUM_BUGS.bugs if known in results}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bug", action="append", choices=list(QUORUM_BUGS.bugs), metavar="NAME")
    parser.add_argument("--starts", type=int, default=len(STARTS), help="how many starting seeds")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    chosen = parser.parse_args()
    names = chosen.bug or list(QUORUM_BUGS.bugs)
    with ProcessPoolExecutor(chosen.at_once) as pool:
        jobs = {pool.submit(measure, name, STARTS[: chosen.starts]): name for name in names}
        for job in as_completed(jobs):
            name, found = jobs[job], job.result()
            _record(name, found)
            print(f"{name}: {found.counts}, {sorted(set(found.rules))}", flush=True)


if __name__ == "__main__":
    main()

"""Command line of a scenario: --seed N, --seeds K of them, --seconds of virtual time, --profile."""

from __future__ import annotations

import argparse
import cProfile
import time
from collections.abc import Callable


def run_seeds(text: str | None, describe: Callable[[int, float], str], seconds: float) -> None:
    """Run the requested seeds; `describe` runs one and returns its result as a line."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile()
    started = time.perf_counter()
    for seed in range(options.seed, options.seed + options.seeds):
        if options.profile:
            profile.enable()
        said = describe(seed, options.seconds)
        profile.disable()
        print(f"seed {seed}: {said}")
    print(f"{time.perf_counter() - started:.2f} s")
    if options.profile:
        profile.print_stats("tottime")

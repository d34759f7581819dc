"""Command that runs seeds of a fuzzer:

python -m tests.fuzz.run group --seed 7           one seed
python -m tests.fuzz.run group --seeds 500        many
"""

from __future__ import annotations

import argparse
import time

from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.fuzzing import run_seed


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", choices=list(FUZZERS))
    arguments.add_argument("--seed", type=int, default=1, help="the first seed")
    arguments.add_argument("--seeds", type=int, default=1, help="how many")
    given = arguments.parse_args()
    began = time.monotonic()
    for seed in range(given.seed, given.seed + given.seeds):
        run_seed(FUZZERS[given.name], seed)
    print(f"{given.name}: {given.seeds} seeds from {given.seed} on pass, {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()

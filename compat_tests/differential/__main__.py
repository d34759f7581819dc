"""Replay one script on both brokers: `python -m compat_tests.differential --seed 7 --count 1500`."""

import argparse
import sys
import tempfile
from pathlib import Path

from compat_tests.differential.running import Outcome, both_brokers, run
from compat_tests.differential.shrinking import shortest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--most", type=int, default=20, help="stop after so many differences")
    parser.add_argument("--shrink-to-failure", action="store_true", help="say how to see the first one again")
    parser.add_argument("--keep", type=Path, help="where the brokers write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, both_brokers(arguments.keep or Path(scratch)) as (kwire, kafka):
        outcome = run(kwire, kafka, arguments.seed, arguments.count, most=arguments.most)
    _tell(outcome)
    if outcome.differences and arguments.shrink_to_failure:
        print(shortest(arguments.seed, outcome.differences[0]))
    return 1 if outcome.differences else 0


def _tell(outcome: Outcome) -> None:
    for name, count in outcome.excuses.counts.items():
        print(f"excused {count:5d} times: {name}")
    for name in outcome.excuses.idle():
        print(f"never needed: {name}")
    print(f"{outcome.played} requests, {len(outcome.differences)} differences, {outcome.seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())

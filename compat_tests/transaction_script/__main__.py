"""Play one script on both brokers: `python -m compat_tests.transaction_script --seed 7 --count 1000`."""

import argparse
import sys
import tempfile
from pathlib import Path

from compat_tests.differential.running import both_brokers
from compat_tests.transaction_script.playing import play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--most", type=int, default=10, help="stop after so many differences")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, both_brokers(Path(scratch)) as pair:
        outcome = play(*pair, arguments.seed, arguments.count, most=arguments.most)
    for difference in outcome.differences:
        print(difference)
    print(
        f"{outcome.played} requests, {outcome.without_error} without an error, {len(outcome.differences)} differences"
    )
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())

"""Play one script on both brokers: `python -m compat_tests.group_script --seed 7 --count 1000`."""

import argparse
import sys
import tempfile
from pathlib import Path

from compat_tests.group_script.pair import pair
from compat_tests.group_script.playing import play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--most", type=int, default=10, help="stop after so many differences")
    parser.add_argument("--control", action="store_true", help="play it on two brokers of Apache Kafka")
    arguments = parser.parse_args()
    first = "kafka" if arguments.control else "kwire"
    with tempfile.TemporaryDirectory() as scratch, pair(Path(scratch), first) as addresses:
        outcome = play(*addresses, arguments.seed, arguments.count, most=arguments.most)
    print(
        f"{outcome.played} requests, {outcome.without_error} without an error, {len(outcome.differences)} differences"
    )
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())

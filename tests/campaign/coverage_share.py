"""A share of seeds for tests.campaign.coverage_of_seeds, which runs this module under slipcover.

python -m tests.campaign.coverage_share cluster 1 10
"""

from __future__ import annotations

import importlib
import logging
import sys


def main() -> None:
    scenario, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.CRITICAL)  # failures of nodes are expected
    run_seed = importlib.import_module(f"tests.simulation.{scenario}").run_seed
    failed = False
    for seed in range(first, last + 1):
        try:
            run_seed(seed)
        except AssertionError as error:
            failed = True
            print(f"{scenario} {seed}: {error}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()

"""Campaign with the fuzzers that have a model, for longer than `make test`.

    python -m tests.campaign.fuzz --seconds 3600 --seed 1001

Each fuzzer of tests/fuzz, and each state machine of hypothesis, gets an equal share of the time. A row for each is
added to docs/evidence/fuzz.jsonl. For a seed that fails, its shortened operations are printed.
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.campaign.evidence import Evidence, current_commit
from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.fuzzing import run_seed

EVIDENCE = Evidence(
    name="fuzz",
    title="Fuzzers with a model",
    about="a run is a seed of tests/fuzz, or an example that hypothesis draws",
    columns=("commit", "fuzzer", "first seed", "runs", "seconds", "outcome"),
    counted="runs",
    sound=r"^no failure",
)
FIRST_SEED: Final = 1001
"""First seed after those of `make test`."""
DRAWN: Final = {
    "transaction": "tests.coordinator.test_transaction_model.TransactionModel",
    "replication": "tests.cluster.replication.test_partition_model.PartitionModel",
    "producers": "tests.log.test_producer_state_model.ProducerModel",
    "partition log": "tests.log.test_partition_log_model.LogModel",
    "indexes": "tests.log.test_index_model.IndexModel",
    "compaction": "tests.log.compaction.test_compaction_model.CompactionModel",
    "cleaner": "tests.server.compaction.test_cleaner_model.CleanerModel",
}
"""State machines of hypothesis, by name: module and class."""
EXAMPLES_AT_ONCE: Final = 25


def run_fuzzer(name: str, seconds: float, first_seed: int) -> tuple[int, str]:
    """Run seeds of a fuzzer until the time is over or one fails; return their number and the failure."""
    end, seed = time.monotonic() + seconds, first_seed
    while time.monotonic() < end:
        try:
            run_seed(FUZZERS[name], seed)
        except Exception as error:  # noqa: BLE001 # any failure is what is looked for
            print(error, *getattr(error, "__notes__", ()), sep="\n")
            return seed + 1 - first_seed, f"seed {seed} fails"
        seed += 1
    return seed - first_seed, "no failure"


def run_drawn(place: str, seconds: float) -> tuple[int, str]:
    """Let hypothesis draw examples until the time is over or one fails; return their number and the failure."""
    module, _, name = place.rpartition(".")
    model = getattr(importlib.import_module(module), name)
    end, runs = time.monotonic() + seconds, 0
    chosen = settings(
        max_examples=EXAMPLES_AT_ONCE, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    while time.monotonic() < end:
        try:
            run_state_machine_as_test(model, settings=chosen)
        except Exception as error:  # noqa: BLE001 # any failure is what is looked for
            print(error, *getattr(error, "__notes__", ()), sep="\n")
            return runs, "an example fails"
        runs += EXAMPLES_AT_ONCE
    return runs, "no failure"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=3600)
    arguments.add_argument("--seed", type=int, default=FIRST_SEED)
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    commit, share = current_commit(), given.seconds / (len(FUZZERS) + len(DRAWN))
    failed = False
    for name in (*FUZZERS, *DRAWN):
        began = time.monotonic()
        is_seeded = name in FUZZERS
        runs, outcome = run_fuzzer(name, share, given.seed) if is_seeded else run_drawn(DRAWN[name], share)
        seconds = f"{time.monotonic() - began:.0f}"
        print(f"{name}: {runs} runs in {seconds} s, {outcome}", flush=True)
        failed = failed or outcome != "no failure"
        if not given.no_evidence:
            EVIDENCE.append(commit, name, given.seed if is_seeded else "drawn", f"{runs:,}", seconds, outcome)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()

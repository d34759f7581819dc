"""Soak test: mixed load on three brokers for an hour; after a warm-up, the resources of a node must not grow.

    python -m tests.campaign.soak --seconds 3600 --seed 1 --directory DIRECTORY

One node is restarted every five minutes. On the two others, resident memory, descriptors, threads and objects are
sampled. After the warm-up (ten minutes, or a third of a shorter run) they may grow by 1 % an hour, or by one thread. A
run of less than an hour may grow by 1 % of the mean in total. --leak connections plants a leak, which must be found. A
row of docs/evidence/soak.jsonl is written at the end; samples are appended to DIRECTORY/samples.jsonl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, fields
from pathlib import Path

from tests.campaign.evidence import Evidence, current_commit
from tests.campaign.soak.load import Load
from tests.campaign.soak.nodes import Nodes, Sample
from tests.campaign.soak.trend import HOUR_SECONDS, growth_an_hour

EVIDENCE = Evidence(
    name="soak",
    title="Soak",
    about="growth after the warm-up as a share of the mean; of the two nodes that were never restarted, the larger "
    "one; planted: a leak that must be found",
    columns=("commit", "seed", "seconds", "planted", "memory", "descriptors", "threads", "objects", "work", "outcome"),
    counted="seconds",
    sound=r"^flat",
)
WARM_UP_SECONDS = 600.0
RESTART_SECONDS = 300.0
SAMPLE_SECONDS = 5.0
GROWTH_MAX = 0.01
TYPES_SHOWN = 12
STEADY, RESTARTED = (1, 2), 3
QUANTITIES = tuple(field.name for field in fields(Sample))


class Soak:
    """Single run of the soak test."""

    def __init__(self, nodes: Nodes, samples: Path) -> None:
        """Create a run; each sample becomes a line of the file `samples`."""
        self._nodes = nodes
        self._file = samples
        self._types: dict[int, dict[str, int]] = {}
        self._samples: dict[int, list[tuple[float, Sample]]] = defaultdict(list)

    def run(self, seconds: float) -> None:
        """Run the load. Raises AssertionError if a node or a client fails."""
        begin = time.monotonic()
        restart_at = begin + RESTART_SECONDS
        while (now := time.monotonic()) < begin + seconds:
            self._nodes.check()
            if now >= restart_at:
                self._nodes.stop(RESTARTED)
                self._nodes.start(RESTARTED)
                restart_at += RESTART_SECONDS
            for number in STEADY:
                sample = self._nodes.sample(number)
                if sample is not None:
                    self._note(number, now - begin, sample)
            if not self._types and now - begin >= warm_up_seconds(seconds):
                self._types = {number: self._nodes.types(number) for number in STEADY}
            time.sleep(SAMPLE_SECONDS)

    def _note(self, number: int, seconds: float, sample: Sample) -> None:
        self._samples[number].append((seconds, sample))
        with self._file.open("a") as file:
            file.write(json.dumps({"node": number, "seconds": round(seconds, 1), **asdict(sample)}) + "\n")

    def grown_types(self) -> dict[int, dict[str, int]]:
        """Return the growth of each type in objects on each steady node since the warm-up, largest first."""
        found = {}
        for number, before in self._types.items():
            now = self._nodes.types(number)
            grown = {name: count - before.get(name, 0) for name, count in now.items() if name in before}
            found[number] = dict(sorted(grown.items(), key=lambda each: -each[1])[:TYPES_SHOWN])
        return found

    def growth(self, seconds: float) -> dict[str, float]:
        """Return the growth of each quantity, the larger one of the steady nodes, in an hour or the shorter time
        measured.
        """
        warm = warm_up_seconds(seconds)
        share = min(1.0, (seconds - warm) / HOUR_SECONDS)
        found = {}
        for quantity in QUANTITIES:
            grown = []
            for samples in self._samples.values():
                late = [(at, getattr(sample, quantity)) for at, sample in samples if at >= warm]
                grown.append(growth_an_hour([at for at, _ in late], [value for _, value in late]) * share)
            found[quantity] = max(grown)
        return found

    def growing(self, growth: dict[str, float]) -> list[str]:
        """Return the quantities that have grown by more than 1 %, or one thread."""
        threads = [sample.threads for samples in self._samples.values() for _, sample in samples]
        allowed = {"threads": max(GROWTH_MAX, len(threads) / sum(threads))}
        return [quantity for quantity, share in growth.items() if share > allowed.get(quantity, GROWTH_MAX)]


def warm_up_seconds(seconds: float) -> float:
    return min(WARM_UP_SECONDS, seconds / 3)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=HOUR_SECONDS)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--leak", choices=["", "connections"], default="")
    arguments.add_argument("--directory", type=Path, help="logs and data; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true")
    given = arguments.parse_args()
    commit = current_commit()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-soak-"))
    nodes = Nodes(directory, leak=given.leak)
    try:
        for number in (*STEADY, RESTARTED):
            nodes.start(number)
        load = Load(nodes.bootstrap, given.seed)
        load.start()
        soak = Soak(nodes, directory / "samples.jsonl")
        soak.run(given.seconds)
        growth = soak.growth(given.seconds)
        grows, types = soak.growing(growth), soak.grown_types()
        load.stop()
        load.note_what_was_not_done()
    finally:
        nodes.kill()
    outcome = f"grows: {', '.join(grows)}" if grows else "flat"
    if load.errors:
        outcome += f"; {len(load.errors)} errors: {load.errors[0]}"
    work = ", ".join(f"{count:,} {what}" for what, count in sorted(load.done.items()))
    shares = [f"{100 * growth[quantity]:+.2f} %" for quantity in QUANTITIES]
    print(outcome, dict(zip(QUANTITIES, shares, strict=True)), work, *load.errors[:5], types, sep="\n")
    if not given.no_evidence:
        EVIDENCE.append(commit, given.seed, f"{given.seconds:.0f}", given.leak or "-", *shares, work, outcome)
    is_as_expected = not load.errors and bool(grows) == bool(given.leak)
    raise SystemExit(not is_as_expected)


if __name__ == "__main__":
    main()

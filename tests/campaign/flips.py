"""Campaign with damaged files of log directories (flipped bits, zeroed blocks, cut ends): same answers, or none.

    python -m tests.campaign.flips --flips 2000 --seed 1

Most damage is in partitions and checkpoints, and is checked with kwire.log's classes (tests/log/damage.py). In one of
fifty cases it is in files that a node needs to start: meta.properties, quorum-state, the metadata log. Such a node must
refuse to start, or have all its topics and records. Each scene of a hundred cases takes the next seed; a row is added
to docs/evidence/flips.jsonl.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwire.protocol.messages.metadata import MetadataRequest
from tests.campaign.evidence import Evidence, current_commit
from tests.log.damage import Damage, Scene, judge
from tests.support.processes import server
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, fetch, produce, values_in

EVIDENCE = Evidence(
    name="flips",
    title="Damaged files",
    about="bits flipped and bytes lost in every kind of file (docs/log-tools.md lists the places that are not covered)",
    columns=("commit", "seeds", "files damaged", "seconds", "outcome"),
    counted="files damaged",
    sound=r"^no violation",
)
FLIPS_A_SCENE = 100
NODE_SHARE = 50
"""Inverse share of damages that are in a whole node."""


@dataclass(slots=True)
class Outcome:
    """Totals over all damages."""

    done: int = 0
    problems: list[str] = field(default_factory=list)
    uncovered: int = 0
    """Number of wrong answers in cases that docs/log-tools.md lists as undetectable."""
    unnoticed: Counter[str] = field(default_factory=Counter)
    """Number of harmless damages that kwire log verify did not detect, by file."""

    def __str__(self) -> str:
        found = "; ".join(self.problems[:3]) or "no violation"
        return f"{found}; {self.uncovered} answered wrongly at places that are listed as not covered"


def in_partitions(flips: int, seed: int, scratch: Path, outcome: Outcome) -> int:
    """Run the damages and return the next unused seed."""
    for first in range(0, flips, FLIPS_A_SCENE):
        directory = scratch / str(seed)
        scene = Scene.make(directory, seed, is_clean=seed % 3 != 0)
        random_source = random.Random(seed)
        for _ in range(min(FLIPS_A_SCENE, flips - first)):
            damage = Damage.draw(scene, random_source)
            verdict = judge(scene, damage, directory)
            outcome.done += 1
            if not verdict.problems:
                outcome.unnoticed[damage.path.suffix or damage.path.name] += not verdict.was_found
            elif damage.is_covered(scene):
                outcome.problems.append(f"seed {seed}, {damage}: {verdict.problems[0]}")
            else:
                outcome.uncovered += 1
        shutil.rmtree(directory)
        seed += 1
    return seed


def _known(directory: Path) -> Any:
    """Return topics, their ids and records; None if the node refuses to start."""
    try:
        with server(directory) as broker, RawClient(broker.bootstrap_server) as client:
            topics = {topic.name: topic.topic_id for topic in client.ask(MetadataRequest(topics=None), 12).topics}
            found = {name: values_in(fetch(client, name).records) for name in topics}
            broker.signal_and_wait(signal.SIGTERM)
            return topics, found
    except AssertionError:
        return None


def _node(directory: Path) -> None:
    with server(directory) as broker, RawClient(broker.bootstrap_server) as client:
        for name in ("orders", "payments"):
            client.ask(create_request(name), 7)
            produce(client, name, batch(b"first", b"second"))
        broker.signal_and_wait(signal.SIGTERM)


def _node_files(directory: Path) -> Iterator[Path]:
    yield directory / "meta.properties"
    yield from sorted((directory / "__cluster_metadata-0").glob("*.log"))
    yield directory / "__cluster_metadata-0" / "quorum-state"


def in_nodes(flips: int, seed: int, scratch: Path, outcome: Outcome) -> None:
    random_source, sound = random.Random(seed), scratch / "node"
    if flips:
        _node(sound)
        expected = _known(sound)
        assert expected is not None
    for _ in range(flips):
        copy = shutil.copytree(sound, scratch / "copy")
        file = random_source.choice([path for path in _node_files(copy) if path.exists()])
        size = file.stat().st_size
        damage = Damage(
            path=file.relative_to(copy),
            kind="flip",
            position=random_source.randrange(size),
            bit=random_source.randrange(8),
        )
        damage.apply(copy)
        answer = _known(copy)
        if answer is not None and answer != expected:
            outcome.problems.append(f"seed {seed}, node, {damage}: {answer!r:.300}, not {expected!r:.300}")
        outcome.done += 1
        shutil.rmtree(copy)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--flips", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    logging.disable(logging.CRITICAL)  # each damage would log errors
    commit, began, outcome = current_commit(), time.monotonic(), Outcome()
    with tempfile.TemporaryDirectory(prefix="kwire-flips-") as scratch:
        last = in_partitions(given.flips - given.flips // NODE_SHARE, given.seed, Path(scratch), outcome) - 1
        in_nodes(given.flips // NODE_SHARE, given.seed, Path(scratch), outcome)
    print(outcome, *outcome.problems, sep="\n  ")
    print(f"harmless, and not noticed by kwire log verify: {dict(outcome.unnoticed)}")
    if not given.no_evidence:
        seconds = f"{time.monotonic() - began:.0f}"
        EVIDENCE.append(commit, f"{given.seed} to {last}", outcome.done, seconds, outcome)
    raise SystemExit(bool(outcome.problems))


if __name__ == "__main__":
    main()

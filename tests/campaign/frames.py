"""Campaign with hostile frames to a broker with 512 MiB: it must survive, serve other clients, and release all memory.

    python -m tests.campaign.frames --frames 200000 --seed 1

continues an earlier run with the same seed and directory, and appends a line to docs/evidence/frames.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.server.apis import SERVED
from tests.campaign import honest
from tests.campaign.confined import Confined, confined
from tests.campaign.evidence import Evidence, current_commit
from tests.campaign.scenes import LARGE, Scenes
from tests.hostile.attack import Attack
from tests.hostile.frames import OPENED, REJECTED, TOPICS, Frames, Shot, frame_of
from tests.support.raw_client import RawClient, sized
from tests.support.requests import batch, create_request, fetch, produce

MEMORY_MARGIN_BYTES = 64 * 1024 * 1024
"""Additional memory that the broker may hold afterwards: caches of sessions, quotas and compiled versions, and the
allocator's own.
"""
DESCRIPTORS_MARGIN = 4
WAIT_SECONDS_MAX = 5.0
"""Maximum wait of an honest client for a response; the attack uses the machine as well."""
SETTLE_SECONDS = 60.0
LARGE_BATCHES = 70
MEGABYTE = 1024 * 1024
SETTINGS = {"auto_create_topics_enable": "false", "log_segment_delete_delay_ms": "1000", "log_retention_ms": "-1"}
KEPT_TOPICS = ("__consumer_offsets", REJECTED, OPENED, honest.TOPIC)
EVIDENCE = Evidence(
    name="frames",
    title="Hostile frames against a broker of 512 MiB",
    about="memory of the broker in MiB: before, at its highest, and when the connections were closed and topics and "
    "groups deleted; the longest wait of honest clients for one answer",
    columns=("commit", "seed", "frames", "seconds", "cap by", "base", "peak", "after", "longest wait (s)", "outcome"),
    counted="frames",
    sound=r"^alive, nothing lost",
)


@dataclass(slots=True)
class Outcome:
    """Findings of a run."""

    frames: int = 0
    records: int = 0
    base_bytes: int = 0
    peak_bytes: int = 0
    after_bytes: int = 0
    longest: dict[str, float] = field(default_factory=dict)
    how: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


# --- before


def prepare(server: Confined) -> None:
    """Create topics and a default quota (to measure each client); use each part that is created on first use."""
    with RawClient(server.bootstrap_server) as client:
        for name in (*TOPICS, REJECTED, honest.TOPIC):
            client.ask(create_request(name), 7)
        client.ask(create_request(OPENED, compression_type="gzip"), 7)
        client.ask(create_request(LARGE), 7)
        for _ in range(LARGE_BATCHES):
            assert produce(client, LARGE, batch(bytes(1_000_000))).error_code == 0
        client.ask(FindCoordinatorRequest(coordinator_keys=["any"]), 6)
        entity = AlterClientQuotasEntity(entity_type="client-id", entity_name=None)
        quota = AlterClientQuotasOperation(key="producer_byte_rate", value=1e12)
        client.ask(AlterClientQuotasRequest(entries=[AlterClientQuotasEntry(entity=[entity], ops=[quota])]), 1)
    asyncio.run(Attack(server.bootstrap_server, _first_uses(random.Random(0))).run())
    with RawClient(server.bootstrap_server) as client:
        for name in TOPICS:  # the first uses deleted some topics
            client.ask(create_request(name), 7)


def _first_uses(random_source: random.Random) -> Iterator[Shot]:
    for api in SERVED:
        for version in range(api.min_version, api.max_version + 1):
            for _ in range(3):
                yield Shot("valid", sized(frame_of(api, version, random_source)))


# --- the attack


@contextmanager
def honest_clients(outcome: Outcome, *where: str) -> Iterator[None]:
    """Run honest clients until the block ends; add their result to the outcome.

    `where` is the address of the broker, and the file of a listener with TLS or SASL.
    """
    command = [sys.executable, "-m", "tests.campaign.honest", *where]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield
        said, _ = process.communicate(timeout=120)
        if not said:
            outcome.problems.append("the honest clients could not end")
            return
        summary = json.loads(said)
        outcome.records = summary["records"]
        outcome.longest = summary["longest"]
        outcome.problems += summary["problems"]
        for role, seconds in outcome.longest.items():
            if seconds > WAIT_SECONDS_MAX:
                outcome.problems.append(f"the {role} waited {seconds:.1f} s for an answer")
        if not outcome.records:
            outcome.problems.append("the honest producer was never served")
    finally:
        process.kill()
        process.wait(10)


async def attack(server: Confined, seed: int, first: int, count: int, outcome: Outcome) -> None:
    """Send frames, from number `first` of the seed on."""
    frames = Frames(seed)
    scenes = Scenes(server.bootstrap_server, seed)
    shots = _limited(frames, first, server, lambda: count - sent.frames - scenes.frames)
    sent: Attack = Attack(server.bootstrap_server, shots)
    playing = asyncio.ensure_future(scenes.play())
    running = asyncio.ensure_future(sent.run())
    try:
        await asyncio.wait((playing, running), return_when=asyncio.FIRST_COMPLETED)
        for done in (playing, running):
            if done.done() and (error := done.exception()) is not None:
                outcome.problems.append(f"the attack ended early: {error!r}")
    finally:
        scenes.stopped = True
        for task in (playing, running):
            task.cancel()
        await asyncio.gather(playing, running, return_exceptions=True)
    outcome.frames = sent.frames + scenes.frames
    outcome.outcomes = {**sent.outcomes, **scenes.played}


def _limited(frames: Frames, first: int, server: Confined, missing: Callable[[], int]) -> Iterator[Shot]:
    """Yield shots until no frames are missing, as long as the broker lives; print the progress."""
    number, reported, began = first, time.monotonic(), time.monotonic()
    while missing() > 0 and server.is_alive:
        yield frames.shot(number)
        number += 1
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            used = server.memory_bytes // MEGABYTE
            print(f"{reported - began:4.0f} s: {missing()} frames to go, {used} MiB", flush=True)


# --- after


def clean_up(server: Confined) -> None:
    """Delete groups created by the frames, once their members have expired, and topics."""
    until = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < until:
        with RawClient(server.bootstrap_server) as client:
            listed = client.ask(ListGroupsRequest(), 4).groups
            if not listed:
                break
            for start in range(0, len(listed), 500):
                names = [group.group_id for group in listed[start : start + 500]]
                client.ask(DeleteGroupsRequest(groups_names=names), 2)
        time.sleep(1.0)
    with RawClient(server.bootstrap_server) as client:
        topics = [topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics]
        gone = [DeleteTopicState(name=name) for name in topics if name not in KEPT_TOPICS]
        client.ask(DeleteTopicsRequest(topics=gone, timeout_ms=10_000), 6)


def look(server: Confined, directory: Path, base_descriptors: int, outcome: Outcome) -> None:
    """Compare the broker's state with that before the attack."""
    until = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < until and (
        server.memory_bytes > outcome.base_bytes + MEMORY_MARGIN_BYTES
        or server.descriptors > base_descriptors + DESCRIPTORS_MARGIN
    ):
        time.sleep(0.5)
    outcome.after_bytes = server.memory_bytes
    if outcome.after_bytes > outcome.base_bytes + MEMORY_MARGIN_BYTES:
        outcome.problems.append("memory did not come back to its base")
    if server.descriptors > base_descriptors + DESCRIPTORS_MARGIN:
        outcome.problems.append(f"{server.descriptors} open descriptors, {base_descriptors} before")
    with RawClient(server.bootstrap_server) as client:
        if fetch(client, REJECTED).high_watermark:
            outcome.problems.append("a batch that had to be rejected was stored")
        topics = client.ask(MetadataRequest(topics=None), 12).topics
    known = {f"{topic.name}-{part.partition_index}" for topic in topics for part in topic.partitions}
    there = {path.name for path in (directory / "data").iterdir() if path.is_dir()}
    stray = {name for name in there - known if not name.endswith("-delete") and not name.startswith("__cluster")}
    if stray:
        outcome.problems.append(f"directories of no topic: {sorted(stray)[:3]}")


def run(directory: Path, *, frames: int, seed: int, first: int = 0) -> Outcome:
    """Run a whole campaign."""
    outcome = Outcome()
    with confined(directory, SETTINGS) as server:
        outcome.how = server.how
        prepare(server)
        outcome.base_bytes, descriptors = server.memory_bytes, server.descriptors
        with honest_clients(outcome, server.bootstrap_server):
            uvloop.run(attack(server, seed, first, frames, outcome))
        conclude(server, directory, descriptors, outcome)
    return outcome


def conclude(server: Confined, directory: Path, base_descriptors: int, outcome: Outcome) -> None:
    """Add what the attack has left: memory, problems of a living broker, its end, its log."""
    outcome.peak_bytes = server.memory_peak_bytes
    if server.is_alive:
        clean_up(server)
        look(server, directory, base_descriptors, outcome)
    else:
        outcome.problems.append(f"the broker ended with status {server.process.poll()}")
    if server.killed_for_memory:
        outcome.problems.append("killed for its memory")
    outcome.problems += [f"log: {line}" for line in server.errors()[:5]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--frames", type=int, default=200_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--directory", type=Path, help="go on in this directory; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-frames-"))
    directory.mkdir(parents=True, exist_ok=True)
    saved = directory / f"sent-{given.seed}"
    first = int(saved.read_text()) if saved.exists() else 0
    commit, began = current_commit(), time.monotonic()
    outcome = run(directory, frames=given.frames, seed=given.seed, first=first)
    saved.write_text(str(first + outcome.frames))
    print(f"in {directory}: {outcome}")
    if not given.no_evidence:
        EVIDENCE.append(commit, given.seed, *cells_of(outcome, time.monotonic() - began))
    raise SystemExit(bool(outcome.problems))


def cells_of(outcome: Outcome, seconds: float) -> Iterator[object]:
    yield from (outcome.frames, f"{seconds:.0f}", outcome.how)
    yield from (size // MEGABYTE for size in (outcome.base_bytes, outcome.peak_bytes, outcome.after_bytes))
    yield ", ".join(f"{role} {seconds:.2f}" for role, seconds in sorted(outcome.longest.items()))
    yield "; ".join(outcome.problems[:3]) or (
        f"alive, nothing lost of {outcome.records} records, nothing rejected stored"
    )


if __name__ == "__main__":
    main()

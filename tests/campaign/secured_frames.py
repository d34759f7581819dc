"""Campaign with hostile frames to listeners with TLS and SASL of a broker with 512 MiB.

    python -m tests.campaign.secured_frames --frames 300000 --seed 1

attacks an SSL, a SASL_PLAINTEXT and a SASL_SSL listener one after the other, each with a third of the frames, and
appends a line for each to docs/evidence/secured-frames.jsonl. The broker must survive, serve honest clients of the same
listener, release all memory, and do nothing for clients that are not logged in.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from compat_tests.harness.ports import free_ports
from kwire.protocol.messages.metadata import MetadataRequest
from tests.campaign.confined import Confined, confined
from tests.campaign.evidence import Evidence, current_commit
from tests.campaign.frames import SETTINGS, Outcome, cells_of, conclude, honest_clients, prepare
from tests.campaign.secured_attack import LOCKED, STOLEN, SecuredAttack, SecuredShots
from tests.campaign.secured_listener import PROTOCOLS, SecuredListener
from tests.hostile.frames import Shot
from tests.support.raw_client import RawClient
from tests.support.requests import create_request, fetch

EVIDENCE = Evidence(
    name="secured-frames",
    title="Hostile frames against listeners with TLS and SASL of a broker of 512 MiB",
    about="memory of the broker in MiB: before, at its highest, and when the connections were closed and topics and "
    "groups deleted; the longest wait of honest clients for one answer",
    columns=(
        "commit",
        "listener",
        "seed",
        "frames",
        "seconds",
        "cap by",
        "base",
        "peak",
        "after",
        "longest wait (s)",
        "outcome",
    ),
    counted="frames",
    sound=r"^alive, nothing lost",
)
REPORT_SECONDS = 10.0


async def attack(server: Confined, listener: SecuredListener, seed: int, count: int, outcome: Outcome) -> None:
    """Send frames until there are enough, as long as the broker lives."""
    shots = SecuredShots(listener, seed)

    def limited() -> Iterator[Shot]:
        number, reported = 0, time.monotonic()
        while sent.frames < count and server.is_alive:
            yield shots.shot(number)
            number += 1
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                print(f"{listener.protocol}: {sent.frames} frames, {server.memory_bytes >> 20} MiB", flush=True)

    sent = SecuredAttack(listener, limited(), seed)
    await sent.run()
    outcome.frames = sent.frames
    outcome.outcomes = dict(sent.outcomes)
    outcome.problems += sent.problems[:3]


def look_for_intruders(server: Confined, outcome: Outcome) -> None:
    """Add a problem if a request of a client without a login has changed something."""
    with RawClient(server.bootstrap_server) as client:
        if fetch(client, LOCKED).high_watermark:
            outcome.problems.append("a client without a login has written records")
        names = [topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics]
    if any(name.startswith(STOLEN) for name in names):
        outcome.problems.append("a client without a login has created topics")


def run(directory: Path, protocol: str, *, frames: int, seed: int) -> Outcome:
    """Attack one listener."""
    outcome = Outcome()
    listener = SecuredListener.create(protocol, free_ports(1)[0], directory)
    listener.write(directory / "listener.json")
    with confined(directory, SETTINGS | listener.settings) as server:
        outcome.how = server.how
        prepare(server)
        with RawClient(server.bootstrap_server) as client:
            client.ask(create_request(LOCKED), 7)
        listener.client().close()
        outcome.base_bytes, descriptors = server.memory_bytes, server.descriptors
        with honest_clients(outcome, f"127.0.0.1:{listener.port}", str(directory / "listener.json")):
            uvloop.run(attack(server, listener, seed, frames, outcome))
        if server.is_alive:
            look_for_intruders(server, outcome)
        conclude(server, directory, descriptors, outcome)
    return outcome


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--frames", type=int, default=300_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--listener", choices=PROTOCOLS, action="append", help="only this one; may be repeated")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    commit, problems = current_commit(), 0
    chosen = given.listener or PROTOCOLS
    for protocol in chosen:
        began = time.monotonic()
        directory = Path(tempfile.mkdtemp(prefix=f"kwire-{protocol.lower()}-"))
        outcome = run(directory, protocol, frames=given.frames // len(chosen), seed=given.seed)
        problems += len(outcome.problems)
        print(f"{protocol} in {directory}: {outcome}", flush=True)
        if not given.no_evidence:
            EVIDENCE.append(commit, protocol, given.seed, *cells_of(outcome, time.monotonic() - began))
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()

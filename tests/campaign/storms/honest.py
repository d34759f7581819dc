"""Honest clients beside a storm: round trips of Produce, Fetch and Heartbeat on established connections.

    python -m tests.campaign.storms.honest LISTENER.json

measures until its input ends. For each line of input it prints the round trips since the last one, as JSON: for each
role the number, the median, the 99th percentile and the maximum in milliseconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.campaign.secured_listener import SecuredListener
from tests.support.raw_client import RawClient
from tests.support.requests import batch, fetch, produce

TOPIC: Final = "honest"
GROUP: Final = "honest"
PAUSE_SECONDS: Final = 0.01
ANSWER_SECONDS: Final = 60.0


class RoundTrips:
    """Round trips of one role, since they were last taken."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._taken: list[float] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(PAUSE_SECONDS):
            began = time.perf_counter()
            self._ask()
            self._taken.append((time.perf_counter() - began) * 1000)

    def take(self) -> dict[str, float]:
        taken, self._taken = sorted(self._taken), []
        if not taken:
            return {
                "count": 0,
                "p50": ANSWER_SECONDS * 1000,
                "p99": ANSWER_SECONDS * 1000,
                "max": ANSWER_SECONDS * 1000,
            }
        p99 = taken[min(len(taken) - 1, len(taken) * 99 // 100)]
        return {"count": len(taken), "p50": taken[len(taken) // 2], "p99": p99, "max": taken[-1]}


def member(client: RawClient) -> Callable[[], object]:
    """Join a group; return a function that sends a heartbeat."""
    client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    joined = client.ask(join, 3)
    assert joined.error_code == 0, joined
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
    generation = joined.generation_id
    sync = SyncGroupRequest(
        group_id=GROUP, generation_id=generation, member_id=joined.member_id, assignments=assignments
    )
    assert client.ask(sync, 2).error_code == 0
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=joined.member_id)

    def beat() -> None:
        assert client.ask(heartbeat, 2).error_code == 0

    return beat


def main() -> None:
    listener = SecuredListener.read(Path(sys.argv[1]))
    clients = [listener.client() for _ in range(3)]
    for client in clients:
        client.socket.settimeout(ANSWER_SECONDS)
    producer, consumer, of_group = clients
    roles = {
        "produce": RoundTrips(lambda: produce(producer, TOPIC, batch(b"honest"))),
        "fetch": RoundTrips(lambda: fetch(consumer, TOPIC, 0, max_bytes=1)),
        "heartbeat": RoundTrips(member(of_group)),
    }
    threads = [threading.Thread(target=each.run, daemon=True) for each in roles.values()]
    for thread in threads:
        thread.start()
    for _ in sys.stdin:
        print(json.dumps({name: each.take() for name, each in roles.items()}), flush=True)
    for each in roles.values():
        each.stopped.set()


if __name__ == "__main__":
    main()

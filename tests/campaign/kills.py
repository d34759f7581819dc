"""Campaign with kill -9 at random times under an idempotent producer: no acknowledged record may be lost or duplicated,
and each partition stays in order.

    python -m tests.campaign.kills --kills 100 --seed 7

continues an earlier run in the same directory, and appends a line to docs/evidence/kills.jsonl.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat_tests.harness.ports import free_ports
from kwire.protocol.records import decode_all
from tests.campaign.evidence import Evidence, current_commit
from tests.support.processes import ServerProcess, server
from tests.support.raw_client import RawClient
from tests.support.requests import create_request, fetch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schema loader is deprecated in newer Python versions
    from kafka import KafkaProducer

TOPIC = "killed"
PARTITIONS = 3
ALIVE_SECONDS = (0.02, 0.6)
"""Lifetime of a broker: from less than one round trip to many requests."""
DELIVERY_SECONDS = 60
EVIDENCE = Evidence(
    name="kills",
    title="kill -9 under an idempotent producer",
    about="each run kills the broker again and again while a producer writes",
    columns=("commit", "seed", "kills", "seconds", "outcome"),
    counted="kills",
    sound=r"^nothing lost",
)
Place = tuple[int, int]
"""(partition, offset)."""


@dataclass(slots=True)
class Ledger:
    """Values that the producer sent, and the responses that it received."""

    next_number: int = 0
    acknowledged: dict[int, Place] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    def note(self, number: int, future: Any) -> None:
        future.add_callback(lambda done: self.acknowledged.__setitem__(number, (done.partition, done.offset)))
        future.add_errback(lambda error: self.failed.__setitem__(number, repr(error)))


class Sender:
    """Producer that sends one number after another until it is stopped."""

    def __init__(self, bootstrap_server: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stop = threading.Event()
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_server,
            enable_idempotence=True,
            linger_ms=1,
            request_timeout_ms=5_000,
            delivery_timeout_ms=DELIVERY_SECONDS * 1000,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=100,
            retry_backoff_ms=20,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        ledger = self._ledger
        while not self._stop.wait(0.001):
            number = ledger.next_number
            ledger.next_number += 1
            value = b"%d" % number
            ledger.note(number, self._producer.send(TOPIC, value=value, partition=number % PARTITIONS))

    def finish(self) -> None:
        """Stop and wait until every record is acknowledged or given up."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(timeout=DELIVERY_SECONDS)
        self._producer.close(timeout=10)


@contextmanager
def broker(directory: Path, port: int) -> Iterator[ServerProcess]:
    with server(directory, listeners=f"PLAINTEXT://127.0.0.1:{port}") as running:
        yield running


def stored(bootstrap_server: str) -> dict[int, list[tuple[int, bytes]]]:
    """Return all records of the broker: (offset, value) by partition."""
    found: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
    with RawClient(bootstrap_server) as client:
        for partition, records in found.items():
            offset = 0
            while True:
                answer = fetch(client, TOPIC, offset, partition=partition, partition_max_bytes=1 << 22)
                batch = [record for record in decode_all(answer.records) if record.offset >= offset]
                if not batch:
                    break
                records += [(record.offset, record.value or b"") for record in batch]
                offset = batch[-1].offset + 1
    return found


def problems(ledger: Ledger, found: dict[int, list[tuple[int, bytes]]]) -> list[str]:
    """Return lost, duplicated and unordered records, and those at other offsets than acknowledged."""
    said = [f"{number} failed: {error}" for number, error in ledger.failed.items()]
    places = {(partition, offset): int(value) for partition, records in found.items() for offset, value in records}
    said += [
        f"{number} was acknowledged at {place}, where {places.get(place)} is"
        for number, place in ledger.acknowledged.items()
        if places.get(place) != number
    ]
    for partition, records in found.items():
        numbers = [int(value) for _, value in records]
        if numbers != sorted(set(numbers)):
            said.append(f"partition {partition} has doubles or is out of order")
        if [offset for offset, _ in records] != list(range(len(records))):
            said.append(f"partition {partition} has gaps between offsets")
    return said


def run(directory: Path, *, kills: int, seed: int, ledger: Ledger | None = None) -> tuple[Ledger, list[str]]:
    """Kill a broker this many times while a producer sends; return the ledger and the problems."""
    random_source = random.Random(seed)
    ledger = ledger or Ledger()
    (port,) = free_ports(1)
    with broker(directory, port) as first, RawClient(first.bootstrap_server) as client:
        client.ask(create_request(TOPIC, PARTITIONS), 7)
        sender = Sender(first.bootstrap_server, ledger)
        time.sleep(random_source.uniform(*ALIVE_SECONDS))
    for _ in range(kills - 1):
        with broker(directory, port):
            time.sleep(random_source.uniform(*ALIVE_SECONDS))  # the seed determines the time of the kill
    with broker(directory, port) as last:
        sender.finish()
        return ledger, problems(ledger, stored(last.bootstrap_server))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--directory", type=Path, help="go on in this directory; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-kills-"))
    directory.mkdir(parents=True, exist_ok=True)
    saved = directory / "ledger.json"
    ledger = _load(saved)
    commit, began = current_commit(), time.monotonic()
    ledger, said = run(directory / "data", kills=given.kills, seed=given.seed, ledger=ledger)
    saved.write_text(json.dumps({"next": ledger.next_number, "acknowledged": list(ledger.acknowledged.items())}))
    outcome = "; ".join(said[:3]) or f"nothing lost, nothing doubled of {len(ledger.acknowledged)} records"
    if not given.no_evidence:
        EVIDENCE.append(commit, given.seed, given.kills, f"{time.monotonic() - began:.0f}", outcome)
    print(outcome)
    raise SystemExit(bool(said))


def _load(saved: Path) -> Ledger:
    if not saved.exists():
        return Ledger()
    content = json.loads(saved.read_text())
    return Ledger(
        next_number=content["next"], acknowledged={number: tuple(place) for number, place in content["acknowledged"]}
    )


if __name__ == "__main__":
    main()

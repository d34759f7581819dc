"""Known anomaly of v1, step by step: a delayed EndTxn ends the producer's next transaction.

    python -m tests.history.held_end --broker kafka

runs it with both protocols on a broker and checks each history. With v1, the next transaction has the same producer id
and epoch, so the coordinator cannot distinguish them. With v2 (KIP-890) it has another epoch, and the old request is
rejected.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat_tests.harness.waiting import eventually
from tests.history import final
from tests.history.checker import Report, check
from tests.history.clients.common import KEYS
from tests.history.clients.raw_producer import Producer, RejectedError
from tests.history.cluster import KINDS, Cluster
from tests.history.journal import Journal
from tests.history.operations import INFO, OK, read

REQUEST_SECONDS = 0.5


@dataclass(slots=True)
class Scene:
    """Producer behind the proxy; the end of its first transaction arrives during its second one."""

    cluster: Cluster
    journal: Journal
    protocol: str
    transactional_id: str

    def play(self, *, commit: bool) -> None:
        """End the first transaction as given, and the second one the other way."""
        bootstrap_server = self.cluster.bootstrap_server
        name, protocol = self.transactional_id, self.protocol
        with closing(Producer(name, bootstrap_server, protocol, request_seconds=REQUEST_SECONDS)) as producer:
            producer.initialise()
            with self._transaction(producer, "first", commit=commit):
                self._send(producer, "first", KEYS[0])
                self.cluster.wire.hold_next(name)
            with self._transaction(producer, "second", commit=not commit):
                self._send(producer, "second", KEYS[0])
                eventually(lambda: not self.cluster.wire.holding, "the held request gets to the broker")
                with contextlib.suppress(RejectedError):
                    self._send(producer, "second", KEYS[1])

    @contextlib.contextmanager
    def _transaction(self, producer: Producer, word: str, *, commit: bool) -> Iterator[None]:
        name = f"{self.transactional_id}/{word}"
        about: dict[str, Any] = {"transactional_id": self.transactional_id, "protocol": self.protocol}
        self.journal.note(self.transactional_id, "begin", transaction=name, **about)
        yield
        complete = self.journal.invoke(self.transactional_id, "end", transaction=name, commit=commit)
        try:
            producer.end(commit=commit)
        except RejectedError as error:
            complete(INFO, error=error.code)
        else:
            complete(OK)

    def _send(self, producer: Producer, word: str, key: str) -> None:
        value = f"{self.transactional_id}-{word}-{key}"
        about: dict[str, Any] = {"transaction": f"{self.transactional_id}/{word}"}
        complete = self.journal.invoke(self.transactional_id, "send", key=key, value=value, **about)
        try:
            complete(OK, offset=producer.send(key, value))
        except RejectedError as error:
            complete(INFO, error=error.code)
            raise


def play(kind: str, protocol: str, directory: Path) -> Report:
    """Run a delayed commit, then a delayed abort; return the verdict on both."""
    directory.mkdir(parents=True)
    journal = Journal(directory / "run.jsonl")
    cluster = Cluster(kind, directory / "broker", journal)
    try:
        cluster.start()
        for commit in (True, False):
            word = "commit" if commit else "abort"
            Scene(cluster, journal, protocol, f"held-{word}").play(commit=commit)
        final.settle(cluster.direct, journal)
        final.read_all(cluster.bootstrap_server, journal)
    finally:
        cluster.close()
        journal.close()
    return check(read(directory / "run.jsonl"))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--broker", choices=sorted(KINDS), default="kwire")
    given = arguments.parse_args()
    for protocol in ("v1", "v2"):
        with tempfile.TemporaryDirectory(prefix="kwire-held-") as directory:
            print(f"{given.broker}, {protocol}:")
            for finding in play(given.broker, protocol, Path(directory) / "run").findings:
                print(f"  {finding}")


if __name__ == "__main__":
    main()

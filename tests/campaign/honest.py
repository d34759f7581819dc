"""Honest clients that must always be served: a producer, a consumer and an admin client, in a separate process.

    python -m tests.campaign.honest HOST:PORT [LISTENER.json]

works until its input ends. Then it reads all records back and prints one line of JSON: acknowledged records, problems,
and the longest wait of each client for a response. A file describes a listener with TLS or SASL.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.records import decode_all
from tests.campaign.secured_listener import SecuredListener
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, fetch, produce

TOPIC = "honest"
PAUSE_SECONDS = 0.01
ADMIN_PAUSE_SECONDS = 0.3
ANSWER_SECONDS = 60.0


class Honest:
    """Acknowledged and read records, and response times."""

    def __init__(self, connect: Callable[[], RawClient]) -> None:
        self._open = connect
        self._stop = threading.Event()
        self.acknowledged: dict[int, bytes] = {}
        self.read: dict[int, bytes] = {}
        self.longest: dict[str, float] = {}
        self.problems: list[str] = []

    def run(self, stopped: Callable[[], object]) -> None:
        """Work until stopped() returns; then check that every acknowledged record can be read."""
        threads = [
            threading.Thread(target=self._guarded, args=(role,)) for role in (self._produce, self._consume, self._admin)
        ]
        for thread in threads:
            thread.start()
        stopped()
        self._stop.set()
        for thread in threads:
            thread.join()
        with self._connect() as client:
            found: dict[int, bytes] = {}
            self._read_on(client, 0, found)
        lost = [offset for offset, value in self.acknowledged.items() if found.get(offset) != value]
        if lost:
            self.problems.append(f"{len(lost)} acknowledged records are lost, the first at {lost[0]}")
        if any(found.get(offset) != value for offset, value in self.read.items()):
            self.problems.append("the consumer read what is not there now")

    def _guarded(self, role: Callable[[], None]) -> None:
        try:
            role()
        except Exception as error:  # noqa: BLE001 it is in the summary
            self.problems.append(f"{role.__name__.strip('_')}: {error!r}")

    def _connect(self) -> RawClient:
        client = self._open()
        client.socket.settimeout(ANSWER_SECONDS)
        return client

    def _timed(self, role: str, call: Callable[[], Any]) -> Any:
        began = time.monotonic()
        result = call()
        self.longest[role] = max(self.longest.get(role, 0.0), time.monotonic() - began)
        return result

    def _produce(self) -> None:
        with self._connect() as client:
            number = 0
            while not self._stop.wait(PAUSE_SECONDS):
                value = b"%d" % number
                answer = self._timed("producer", partial(produce, client, TOPIC, batch(value)))
                if answer.error_code:
                    self.problems.append(f"produce was answered {answer.error_code}")
                    return
                self.acknowledged[answer.base_offset] = value
                number += 1

    def _consume(self) -> None:
        with self._connect() as client:
            offset = 0
            while not self._stop.is_set():
                offset = self._read_on(client, offset, self.read)
                self._stop.wait(PAUSE_SECONDS)

    def _read_on(self, client: RawClient, offset: int, into: dict[int, bytes]) -> int:
        """Read to the end and return the next offset."""
        while True:
            answer = self._timed("consumer", partial(fetch, client, TOPIC, offset))
            records = [record for record in decode_all(answer.records) if record.offset >= offset]
            into.update((record.offset, record.value or b"") for record in records)
            if not records:
                return offset
            offset = records[-1].offset + 1

    def _admin(self) -> None:
        with self._connect() as client:
            number = 0
            while not self._stop.wait(ADMIN_PAUSE_SECONDS):
                name = f"admin-{number}"
                number += 1
                self._timed("admin", partial(client.ask, MetadataRequest(topics=None), 12))
                made = self._timed("admin", partial(client.ask, create_request(name), 7))
                gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
                deleted = self._timed("admin", partial(client.ask, gone, 6))
                codes = made.topics[0].error_code, deleted.responses[0].error_code
                if codes != (0, 0):
                    self.problems.append(f"creating and deleting {name} was answered {codes}")
                    return


def main() -> None:
    address, *files = sys.argv[1:]
    connect = SecuredListener.read(Path(files[0])).client if files else partial(RawClient, address, client_id="honest")
    honest = Honest(connect)
    honest.run(sys.stdin.read)
    summary = {"records": len(honest.acknowledged), "longest": honest.longest, "problems": honest.problems}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()

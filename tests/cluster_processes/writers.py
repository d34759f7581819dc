"""Clients that write metadata through the active controller, and remember acknowledged writes."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from tests.cluster_processes.nodes import CLUSTER_ID, ControllerNode
from tests.support.raw_client import RawClient

PAUSE_SECONDS = 0.01
ANSWER_SECONDS = 1.0
BLOCKS_A_BROKER = 20
"""Number of producer id blocks that are allocated between two broker registrations."""
FIRST_BROKER = 1000
REJECTIONS = {
    ErrorCode.NOT_CONTROLLER: "it does not lead, or leads no more",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "a leader of before does not know the newest broker",
    ErrorCode.STALE_BROKER_EPOCH: "a leader of before does not know the newest broker",
    ErrorCode.KAFKA_STORAGE_ERROR: "power is cut, and its disk is gone before it is",
}
"""Expected error codes of writers, with their reasons."""


@dataclass(frozen=True, slots=True)
class Registered:
    """Registration of a broker that was acknowledged."""

    broker_id: int
    incarnation_id: UUID
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Block:
    """Acknowledged block of producer ids, which must be unique."""

    broker_id: int
    begin: int
    end: int


Acknowledged = Registered | Block


@dataclass(slots=True)
class Ledger:
    """Acknowledgements of all writers."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Times of the acknowledgements, by time.monotonic()."""
    rejections: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def first_after(self, seconds: float) -> float | None:
        """Return the time of the first acknowledged write since that time."""
        return next((each for each in list(self.times) if each >= seconds), None)

    @property
    def blocks(self) -> list[Block]:
        return [each for each in self.acknowledged if isinstance(each, Block)]

    @property
    def brokers(self) -> list[Registered]:
        return [each for each in self.acknowledged if isinstance(each, Registered)]


class Writer:
    """Writer in a separate thread. It stays with a controller until that one returns an error or does not respond."""

    def __init__(
        self, number: int, nodes: Sequence[ControllerNode], ledger: Ledger, random_source: random.Random
    ) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._random_source = random_source
        self._turn = number
        self._client: RawClient | None = None
        self._next_broker = FIRST_BROKER * (number + 1)
        self._broker: Registered | None = None
        self._blocks_left = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        self._leave()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                self._write()
            except OSError:  # no response, a closed connection, or a network cut within a response
                self._leave()

    def _leave(self) -> None:
        """Use the next controller for the next request."""
        if self._client is not None:
            with suppress(OSError):
                self._client.close()
            self._client = None
        self._turn += 1

    def _write(self) -> None:
        node = self._nodes[self._turn % len(self._nodes)]
        if self._client is None:
            self._client = node.connect(ANSWER_SECONDS)
        if self._broker is None or self._blocks_left == 0:
            code = self._register(self._client)
        else:
            code = self._take_block(self._client, self._broker)
        if code != ErrorCode.NONE:
            self._ledger.rejections[code] += 1
            if code not in REJECTIONS:
                self._ledger.problems.append(f"a writer was rejected with error {code}")
            self._leave()

    def _register(self, client: RawClient) -> int:
        """Register a broker with a new id, so that the outcome of a registration without a response does not matter."""
        broker_id, incarnation_id = self._next_broker, UUID(int=self._random_source.getrandbits(128))
        self._next_broker += 1
        answer = client.ask(_registration(broker_id, incarnation_id), 4)
        if answer.error_code == ErrorCode.NONE:
            self._broker = Registered(broker_id, incarnation_id, answer.broker_epoch)
            self._blocks_left = BLOCKS_A_BROKER
            self._note(self._broker)
        code: int = answer.error_code
        return code

    def _take_block(self, client: RawClient, broker: Registered) -> int:
        answer = client.ask(AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch), 0)
        if answer.error_code == ErrorCode.NONE:
            begin = answer.producer_id_start
            self._blocks_left -= 1
            self._note(Block(broker.broker_id, begin, begin + answer.producer_id_len))
        code: int = answer.error_code
        return code

    def _note(self, done: Acknowledged) -> None:
        self._ledger.acknowledged.append(done)
        self._ledger.times.append(time.monotonic())


def _registration(broker_id: int, incarnation_id: UUID) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=incarnation_id,
        listeners=[BrokerRegistrationListener(name="PLAINTEXT", host="localhost", port=9092)],
        features=[
            BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in (
                ("metadata.version", 7, 30),
                ("transaction.version", 0, 2),
                ("group.version", 0, 1),
                ("eligible.leader.replicas.version", 0, 1),
                ("share.version", 0, 1),
                ("streams.version", 0, 1),
                ("kraft.version", 0, 1),
            )
        ],
        log_dirs=[UUID(int=0xD0000 + broker_id)],
    )

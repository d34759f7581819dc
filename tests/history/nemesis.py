"""Faults of a run by seed: kill -9 and pauses of the broker, delayed requests, killed clients."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from tests.history.cluster import Cluster
from tests.history.journal import Journal
from tests.history.operations import OK
from tests.history.processes import Client

BETWEEN_SECONDS = (2.0, 6.0)
PAUSE_SECONDS = (0.3, 3.0)
HELD_AT_ONCE = 2
"""Maximum number of held requests: the producer of a held EndTxn waits for its timeout before a retry."""
FAULTS = ("kill", "pause", "hold", "hold", "crash")


class Nemesis:
    """Nemesis that causes a random set of faults every few seconds, sometimes none."""

    def __init__(self, cluster: Cluster, clients: list[Client], journal: Journal, seed: int, faults: set[str]) -> None:
        self._cluster = cluster
        self._clients = clients
        self._journal = journal
        self._random_source = random.Random(f"nemesis {seed}")
        self._over = threading.Event()
        self._faults = [fault for fault in FAULTS if fault in faults]
        self.done: list[str] = []

    def torment(self, seconds: float) -> None:
        """Cause faults for this time; afterwards all processes run again."""
        timer = threading.Timer(seconds, self._over.set)
        timer.start()
        while not self._over.wait(self._random_source.uniform(*BETWEEN_SECONDS)):
            for fault in [each for each in self._faults if self._random_source.random() < 0.35]:
                self._do(fault)
        timer.join()
        self._cluster.wire.release_all()
        self._cluster.resume()

    def _do(self, fault: str) -> None:
        faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "pause": self._pause,
            "hold": self._hold,
            "crash": self._crash,
        }
        self.done.append(fault)
        if fault == "hold":  # the proxy records the requests that it held, and for how long
            self._hold()
            return
        complete = self._journal.invoke("nemesis", "fault", what=fault)
        faults[fault]()
        complete(OK)

    def _kill(self) -> None:
        self._cluster.broker.restart(clean=False)

    def _pause(self) -> None:
        self._cluster.pause()
        self._over.wait(self._random_source.uniform(*PAUSE_SECONDS))
        self._cluster.resume()

    def _hold(self) -> None:
        writers = [client for client in self._clients if client.kind.is_writer]
        for client in self._random_source.sample(writers, HELD_AT_ONCE):
            self._cluster.wire.hold_next(client.id)

    def _crash(self) -> None:
        client = self._random_source.choice(self._clients)
        client.kill()
        client.start()

"""Base of all clients of a history: their identity in the run, a name for each incarnation, and their stop."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import logging
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tests.history.journal import Journal

TOPIC = "history"
COPIES = "copies"
PARTITIONS = 3
TRANSACTION_TIMEOUT_MS = 6_000
REQUEST_SECONDS = 1.5
"""Request timeout, shorter than most faults, so that clients give up and retry."""
LIBRARY_LOG_BYTES = 4_000_000
ABORTS = 0.25
"""Share of transactions that are aborted on purpose."""


def key_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def partition_of(key: str) -> tuple[str, int]:
    topic, _, partition = key.rpartition("-")
    return topic, int(partition)


KEYS = [key_of(topic, partition) for topic in (TOPIC, COPIES) for partition in range(PARTITIONS)]


@dataclass(slots=True)
class Session:
    """Run of a client program, from its start to its end or its kill."""

    name: str
    bootstrap_server: str
    journal: Journal
    random_source: random.Random
    stopping: threading.Event = field(default_factory=threading.Event)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def id(self) -> str:
        """Return the id of all incarnations: transactional id, client id, or group member."""
        return self.name.partition(".")[0]

    def number(self) -> int:
        return next(self._numbers)

    def value(self) -> str:
        """Return a unique value."""
        return f"{self.name}:{self.number()}"

    def logger(self, name: str) -> logging.Logger:
        """Return a logger for a library's newest messages, in a file beside the journal."""
        logger = logging.getLogger(name)
        path = self.journal.path.with_suffix(f".{name}.log")
        handler = RotatingFileHandler(path, maxBytes=LIBRARY_LOG_BYTES, backupCount=1)
        handler.setFormatter(logging.Formatter("%(created).3f %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        return logger

    def plan(self) -> tuple[list[str], bool]:
        """Return the keys of the next transaction's records, and whether to commit it."""
        keys = [
            key_of(TOPIC, self.random_source.randrange(PARTITIONS)) for _ in range(self.random_source.randint(2, 5))
        ]
        return keys, self.random_source.random() >= ABORTS

    def pause(self) -> None:
        self.stopping.wait(self.random_source.uniform(0.005, 0.03))


def run(main: Callable[[Session], None], description: str | None) -> None:
    """Run a client until SIGTERM."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--name", required=True, help="what it is, and which incarnation: payments.3")
    arguments.add_argument("--bootstrap-server", required=True)
    arguments.add_argument("--journal", type=Path, required=True)
    arguments.add_argument("--seed", type=int, required=True)
    given = arguments.parse_args()
    journal = Journal(given.journal)
    session = Session(given.name, given.bootstrap_server, journal, random.Random(f"{given.seed} {given.name}"))
    signal.signal(signal.SIGTERM, lambda *_: session.stopping.set())
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    main(session)
    journal.close()

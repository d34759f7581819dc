"""Clients of the history in a cluster's scenario, and its end: open transactions must end by their timeout, and then
all records are read once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kwire.simulation import ClusterBroker, Simulation
from tests.history.operations import COMMITTED, Hanging
from tests.simulation.cluster_history import KEYS, PARTITIONS, History
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.history_classic import ClassicProducer
from tests.simulation.history_producers import Producer, TransactionalProducer
from tests.simulation.history_readers import MEMBERS, Member, Reader, UncommittedReader
from tests.simulation.history_worker import RejectedError, Worker

CAST: Final[tuple[tuple[str, type[Worker]], ...]] = (
    ("p0", Producer),
    ("r0", Reader),
    ("u0", UncommittedReader),
    ("m0", Member),
    ("m1", Member),
)
TRANSACTIONAL: Final = ("tx0", "tx1", "tx2")
"""Transactional ids; one or two of them use the classic protocol."""
STABLE_SECONDS: Final = 40.0
"""Time limit longer than a transaction's timeout and its abort."""
FINAL_PATIENCE_SECONDS: Final = 75.0
"""Patience in a healed cluster: a packet of a link that was slow may be late by a minute, and those behind it wait."""


def make_workers(
    simulation: Simulation, brokers: Sequence[ClusterBroker], ledger: Ledger, history: History
) -> list[Worker]:
    """Create all clients."""
    random_source = simulation.random_source.child("protocols")
    classic = random_source.some(TRANSACTIONAL, 1 + random_source.below(2))
    producers = [(name, ClassicProducer if name in classic else TransactionalProducer) for name in TRANSACTIONAL]
    return [kind(simulation, brokers, ledger, history, name) for name, kind in (*CAST, *producers)]


async def conclude(simulation: Simulation, brokers: Sequence[ClusterBroker], ledger: Ledger, history: History) -> None:
    """Read all records in a healed cluster and check the history. Raises AssertionError."""
    last = TransactionalProducer(simulation, brokers, ledger, history, "last")
    readers = [
        Reader(simulation, brokers, ledger, history, "final"),
        UncommittedReader(simulation, brokers, ledger, history, "final-uncommitted"),
    ]
    for worker in (last, *readers):
        worker.patience_seconds = FINAL_PATIENCE_SECONDS
    try:
        await last.initialise()
        await last.transact(commit=True)
        await _settle(simulation, readers[0], history)
        for reader in readers:
            for index in range(PARTITIONS):
                await reader.read_all(index)
        for group in (MEMBERS, *TRANSACTIONAL, last.name):
            await readers[0].restore(group, list(KEYS))
    except RejectedError as error:
        raise AssertionError(f"Q13: a healed cluster does not serve: {error}") from error
    for worker in (last, *readers):
        worker.close()
    history.judge()


async def _settle(simulation: Simulation, reader: Reader, history: History) -> None:
    """Wait until open transactions end by their timeout, after the last write."""
    given_up = simulation.now + STABLE_SECONDS
    for index, key in enumerate(KEYS):
        while (stable := await reader.end_of(index, COMMITTED)) < (end := await reader.end_of(index, "uncommitted")):
            if simulation.now > given_up:
                history.note(Hanging(process=reader.name, key=key, last_stable_offset=stable, end=end))
                break
            await asyncio.sleep(0.2)

"""Scenario with one broker: records acknowledged with acks=all and flush.messages=1 survive all faults.

`python -m tests.simulation.acknowledged --seed 7` runs one seed and prints what it did; --seeds 30 runs so many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from kwire.simulation import Simulation, WireClient
from kwire.simulation.faults import KINDS, Faults
from tests.simulation.seeds import run_seeds
from tests.support.requests import batch, create_request, fetch_request, produce_request, values_in

TOPIC = "orders"
SECONDS = 60.0
CLIENTS = 4
PAUSE_SECONDS = 0.2
"""Average pause between two requests of a client: a seed has about 1,000 requests."""
GIVE_UP_SECONDS = 5.0


@dataclass(slots=True)
class Outcome:
    """Result of a seed."""

    digest: str = ""
    events: int = 0
    faults: int = 0
    operations: int = 0
    acknowledged: set[bytes] = field(default_factory=set)
    read: list[bytes | None] = field(default_factory=list)


class Client:
    """Client that produces one record after another and remembers the acknowledged ones."""

    def __init__(self, simulation: Simulation, number: int, outcome: Outcome) -> None:
        self._simulation = simulation
        self._number = number
        self._outcome = outcome
        self._random_source = simulation.random_source.child(f"client {number}")
        self._wire: WireClient | None = None

    async def run(self, end: float) -> None:
        count = 0
        while self._simulation.now < end:
            await asyncio.sleep(self._random_source.exponential(PAUSE_SECONDS))
            count += 1
            await self._produce(b"%d-%d" % (self._number, count))
        if self._wire is not None:
            self._wire.close()

    async def _produce(self, value: bytes) -> None:
        self._outcome.operations += 1
        try:
            if self._wire is None:
                (broker,) = self._simulation.brokers.values()
                self._wire = await WireClient.connect(broker.bootstrap_server, seconds=GIVE_UP_SECONDS)
            answer = await self._wire.ask(produce_request(TOPIC, batch(value)), 11, seconds=GIVE_UP_SECONDS)
        except OSError:
            if self._wire is not None:
                self._wire.close()
                self._wire = None
            return
        if answer.responses[0].partition_responses[0].error_code == 0:
            self._outcome.acknowledged.add(value)


async def scenario(
    simulation: Simulation, outcome: Outcome, seconds: float, *, kinds: Sequence[str] = KINDS, flush_messages: int = 1
) -> None:
    (broker,) = simulation.brokers.values()
    await broker.start()
    wire = await simulation.connect(broker)
    created = await wire.ask(create_request(TOPIC, 1, flush_messages=flush_messages), 7)
    assert created.topics[0].error_code == 0
    wire.close()
    faults = Faults(simulation, kinds=kinds)
    clients = [Client(simulation, number, outcome) for number in range(CLIENTS)]
    end = simulation.now + seconds
    await asyncio.gather(
        faults.run(seconds=seconds, per_minute=max(5.0, 300.0 / seconds)), *(client.run(end) for client in clients)
    )
    outcome.faults = faults.count
    await read_back(simulation, outcome)


async def read_back(simulation: Simulation, outcome: Outcome) -> None:
    (broker,) = simulation.brokers.values()
    wire = await simulation.connect(broker)
    offset = 0
    while True:
        answer = await wire.ask(fetch_request(TOPIC, offset, max_wait_ms=100), 12)
        part = answer.responses[0].partitions[0]
        assert part.error_code == 0, part
        values = values_in(bytes(part.records or b""))
        if not values:
            wire.close()
            return
        outcome.read += values
        offset += len(values)


def run_seed(seed: int, seconds: float = SECONDS, *, kinds: Sequence[str] = KINDS, flush_messages: int = 1) -> Outcome:
    """Run one seed. Raises AssertionError if an acknowledged record is missing."""
    outcome = Outcome()
    with Simulation(seed) as simulation:
        simulation.broker()
        work = scenario(simulation, outcome, seconds, kinds=kinds, flush_messages=flush_messages)
        simulation.run(work, seconds=10 * seconds + 600)
        lost = outcome.acknowledged.difference(filter(None, outcome.read))
        assert not lost, f"lost, seed {seed}: {sorted(lost)}; python -m tests.simulation.acknowledged --seed {seed}"
        outcome.digest, outcome.events = simulation.trace.digest, simulation.timeline.events
    return outcome


def describe(seed: int, seconds: float) -> str:
    """Run a seed and return its result as a line."""
    outcome = run_seed(seed, seconds)
    return (
        f"{outcome.digest} {outcome.events} events, {outcome.operations} operations, "
        f"{outcome.faults} faults, {len(outcome.acknowledged)} acknowledged, {len(outcome.read)} read"
    )


if __name__ == "__main__":
    run_seeds(__doc__, describe, SECONDS)

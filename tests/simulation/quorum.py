"""The scenario of a quorum: what its leaders acknowledged is known to every controller, whatever happened.

`python -m tests.simulation.quorum --seed 7` runs one seed and prints what it did; --seeds 30 runs so many.

Clients write records of their own through whichever controller leads, one batch after the other. After every event the
rules that must hold at any moment are checked, every 1,000 events those that look at whole logs; in the end all is
healed, a leader must serve within a bound, and every controller's image must hold all that was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kwire.cluster.metadata_log import MetadataLog
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.metadata_records import TopicRecord
from kwire.protocol.records import iterate_headers
from kwire.server.controller_server import ControllerServer
from kwire.simulation import Simulation
from kwire.simulation.controllers import SimulatedController
from kwire.simulation.faults import KINDS, Faults
from tests.simulation.seeds import run_seeds

SECONDS = 60.0
CLIENTS = 4
PAUSE_SECONDS = 0.2
"""Between two writes of a client, on average: a seed has about 1,000 of them."""
LEADER_SECONDS = 20.0
"""Within which a healed quorum must have a leader that serves."""
AGREE_SECONDS = 30.0
"""Within which all controllers must know all that was committed."""
READ_BYTES = 1 << 20
CHECK_EVENTS = 1000


@dataclass(slots=True)
class Outcome:
    """What a seed came to."""

    digest: str = ""
    events: int = 0
    faults: int = 0
    operations: int = 0
    elections: int = 0
    acknowledged: set[str] = field(default_factory=set)


class Rules:
    """What must hold at any moment. Remembers what was said once, so that nobody says otherwise later."""

    def __init__(self, nodes: Sequence[SimulatedController]) -> None:
        self._nodes = nodes
        self.leaders: dict[int, int] = {}
        """By epoch (Q1)."""
        self._committed: dict[int, tuple[int, int]] = {}
        """By a batch's base offset, its epoch and CRC (Q3)."""
        self._epochs: dict[int, int] = {}
        """By node, the highest that it has stored (Q2)."""
        self._seen: dict[SimulatedController, tuple[ControllerServer, int, int, bool]] = {}
        """What each node was like after the last event."""
        self._compared: dict[SimulatedController, tuple[ControllerServer, int]] = {}
        """Up to where a node's log was compared, in this life."""

    def at_any_moment(self) -> None:
        """Cheap: after every event. What a node knew that could not store it, nobody has heard."""
        for node in self._nodes:
            if node.is_serving and not (log := node.server.metadata_log).failed.done():
                quorum = log.node.quorum
                now = node.server, quorum.epoch, quorum.high_watermark, quorum.is_leader
                before = self._seen.get(node)
                if now != before:
                    self._seen[node] = now
                    self._check(node, now, before)

    def _check(
        self,
        node: SimulatedController,
        now: tuple[ControllerServer, int, int, bool],
        before: tuple[ControllerServer, int, int, bool] | None,
    ) -> None:
        server, epoch, high_watermark, is_leader = now
        if is_leader:
            leader = self.leaders.setdefault(epoch, node.node_id)
            assert leader == node.node_id, f"epoch {epoch} has two leaders, {leader} and {node.node_id}"
        assert epoch >= self._epochs.get(node.node_id, 0), f"node {node.node_id} went back in epochs"
        self._epochs[node.node_id] = epoch
        if before is not None and before[0] is server:
            assert high_watermark >= before[2], f"{node.name}: high watermark went back"

    def of_whole_logs(self) -> None:
        """Costly: what is committed is the same everywhere, for ever."""
        for node in self._nodes:
            if node.is_serving and not node.server.metadata_log.failed.done():
                with node.host.device.sound():
                    self._compare(node, node.server.metadata_log)

    def _compare(self, node: SimulatedController, metadata_log: MetadataLog) -> None:
        log = metadata_log.node.log
        life, offset = self._compared.get(node, (node.server, 0))
        end, offset = metadata_log.high_watermark, max(log.start_offset, offset if life is node.server else 0)
        while offset < end:
            data = log.read(offset, READ_BYTES, limit_offset=end)
            assert data, f"{node.name} lacks what it has committed, from offset {offset} on"
            for _, header in iterate_headers(data):
                offset = header.next_offset
                here = header.partition_leader_epoch, header.crc
                known = self._committed.setdefault(header.base_offset, here)
                assert known == here, f"{node.name} has another batch at offset {header.base_offset}"
        self._compared[node] = node.server, offset


class Writer:
    """Writes one record after the other at whoever leads, and remembers those that were acknowledged."""

    def __init__(
        self, simulation: Simulation, number: int, nodes: Sequence[SimulatedController], outcome: Outcome
    ) -> None:
        self._simulation = simulation
        self._number = number
        self._nodes = nodes
        self._outcome = outcome
        self._chance = simulation.chance.child(f"writer {number}")

    async def run(self, end: float) -> None:
        count = 0
        while self._simulation.now < end:
            await asyncio.sleep(self._chance.exponential(PAUSE_SECONDS))
            count += 1
            self._write(f"t-{self._number}-{count}", UUID(int=self._number << 32 | count))

    def _write(self, name: str, topic_id: UUID) -> None:
        """In the leader's own process, which may die meanwhile."""
        self._outcome.operations += 1
        active = [node for node in self._nodes if node.is_serving and node.server.metadata_log.is_active]
        if not active:
            return
        node = self._chance.pick(active)
        process = node.host.process
        assert process is not None
        process.run(self._append(node.server.metadata_log, name, topic_id))

    async def _append(self, log: MetadataLog, name: str, topic_id: UUID) -> None:
        try:
            await log.committed(log.append([TopicRecord(name=name, topic_id=topic_id)]))
        except (KafkaError, DiskFailure):
            return
        self._outcome.acknowledged.add(name)


async def scenario(
    simulation: Simulation,
    nodes: Sequence[SimulatedController],
    outcome: Outcome,
    seconds: float,
    kinds: Sequence[str],
) -> None:
    await asyncio.gather(*(node.start() for node in nodes))
    faults = Faults(simulation, kinds=kinds, nodes=nodes)
    writers = [Writer(simulation, number, nodes, outcome) for number in range(CLIENTS)]
    end = simulation.now + seconds
    await asyncio.gather(
        faults.run(seconds=seconds, per_minute=max(5.0, 300.0 / seconds)), *(writer.run(end) for writer in writers)
    )
    outcome.faults = faults.count
    await until(simulation, LEADER_SECONDS, "a leader serves", lambda: any(_active(node) for node in nodes))
    await until(simulation, AGREE_SECONDS, "all controllers know what is acknowledged", lambda: _agree(nodes, outcome))


def _active(node: SimulatedController) -> bool:
    return node.is_serving and node.server.metadata_log.is_active


def _agree(nodes: Sequence[SimulatedController], outcome: Outcome) -> bool:
    images = [node.server.metadata_log.image for node in nodes if node.is_serving]
    return (
        len(images) == len(nodes)
        and len({image.offset for image in images}) == 1
        and all(outcome.acknowledged <= set(image.topics) for image in images)
    )


async def until(simulation: Simulation, seconds: float, what: str, condition: object) -> None:
    deadline = simulation.now + seconds
    assert callable(condition)
    while not condition():
        assert simulation.now < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.1)


def run_seed(seed: int, seconds: float = SECONDS, *, count: int = 0, kinds: Sequence[str] = KINDS) -> Outcome:
    """One seed, with 3 or 5 controllers unless it is said. Raises AssertionError when a rule is broken."""
    outcome = Outcome()
    with Simulation(seed) as simulation:
        nodes = simulation.quorum(count or (3, 3, 5)[seed % 3])
        rules = Rules(nodes)
        simulation.check_after_each_event(rules.at_any_moment)
        simulation.check_every(CHECK_EVENTS, rules.of_whole_logs)
        simulation.run(scenario(simulation, nodes, outcome, seconds, kinds), seconds=10 * seconds + 600)
        rules.of_whole_logs()
        images = [node.server.metadata_log.image for node in nodes]
        assert all(image == images[0] for image in images), "the images differ"
        outcome.elections = len(rules.leaders)
        outcome.digest, outcome.events = simulation.trace.digest, simulation.timeline.events
    return outcome


def describe(seed: int, seconds: float) -> str:
    """What a seed came to, in a line."""
    outcome = run_seed(seed, seconds)
    return (
        f"{outcome.digest} {outcome.events} events, {outcome.operations} operations, "
        f"{outcome.faults} faults, {outcome.elections} leaders, {len(outcome.acknowledged)} acknowledged"
    )


if __name__ == "__main__":
    run_seeds(__doc__, describe, SECONDS)

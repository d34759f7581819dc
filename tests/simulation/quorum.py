"""Scenario with a quorum: every controller gets all records that a leader acknowledged, under any faults.

`python -m tests.simulation.quorum --seed 7` runs one seed and prints what it did; --seeds 30 runs so many.

Clients write records through the current leader, one batch after another, while the seed determines the faults. Rules
are checked throughout (tests/simulation/quorum_rules.py). Then all faults end. A leader must serve within a time limit,
and every controller's image must contain all acknowledged records. Afterwards one link is cut, and leadership is
checked. One in ten quorums then loses most of its disks, and must not elect a leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.metadata_records import TopicRecord
from kwire.simulation import Simulation, Speed
from kwire.simulation.controllers import SimulatedController
from tests.simulation import quorum_calm
from tests.simulation.quorum_faults import QUORUM_KINDS, QuorumFaults
from tests.simulation.quorum_rules import Rules
from tests.simulation.seeds import run_seeds

SECONDS = 60.0
CLIENTS = 4
PAUSE_SECONDS = 0.21
"""Average pause between two writes of a client: a seed has more than 1,000 of them."""
LEADER_SECONDS = 20.0
"""Time limit until a healed quorum has a leader that serves."""
AGREE_SECONDS = 30.0
"""Time limit until all controllers are voters and have all committed records."""
CHECK_EVENTS = 1000


@dataclass(slots=True)
class Outcome:
    """Result of a seed."""

    digest: str = ""
    events: int = 0
    faults: int = 0
    operations: int = 0
    elections: int = 0
    acknowledged: set[str] = field(default_factory=set)


class Writer:
    """Client that writes one record after another through the current leader, and remembers the acknowledged ones."""

    def __init__(
        self,
        simulation: Simulation,
        number: int,
        nodes: Sequence[SimulatedController],
        rules: Rules,
        outcome: Outcome,
    ) -> None:
        self._simulation = simulation
        self._number = number
        self._nodes = nodes
        self._rules = rules
        self._outcome = outcome
        self._random_source = simulation.random_source.child(f"writer {number}")

    async def run(self, end: float) -> None:
        count = 0
        while self._simulation.now < end:
            await asyncio.sleep(self._random_source.exponential(PAUSE_SECONDS))
            count += 1
            self._write(f"t-{self._number}-{count}", UUID(int=self._number << 32 | count))

    def _write(self, name: str, topic_id: UUID) -> None:
        """Append a record in the leader's own process, which may end meanwhile."""
        self._outcome.operations += 1
        active = [node for node in self._nodes if node.is_serving and node.server.metadata_log.is_active]
        if not active:
            return
        node = self._random_source.pick(active)
        process = node.host.process
        assert process is not None
        process.run(self._append(node.server.metadata_log, name, topic_id))

    async def _append(self, log: MetadataLog, name: str, topic_id: UUID) -> None:
        try:
            written = log.append([TopicRecord(name=name, topic_id=topic_id)])
            await log.committed(written)
        except (KafkaError, DiskFailure):
            return
        self._outcome.acknowledged.add(name)
        self._rules.acknowledged_to = max(self._rules.acknowledged_to, written.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Random decisions of a seed before it begins."""

    nodes: int
    as_objects: bool
    """True in three of four seeds: the quorum's messages are passed as objects, without the codec."""
    config: dict[str, object]
    speed: Speed
    slowness: float
    """Slowness of all disks."""
    per_minute: float
    is_beyond: bool
    """True if most disks are lost at the end."""


def draw(seed: int, simulation: Simulation, count: int = 0) -> Draw:
    random_source = simulation.random_source.child("draw")
    return Draw(
        nodes=count or (3, 3, 5)[seed % 3],
        as_objects=seed % 4 != 0,
        config={
            "metadata.log.max.record.bytes.between.snapshots": random_source.pick((15_000, 40_000, 20_000_000)),
            "metadata.max.retention.bytes": random_source.pick((10_000, 100_000_000)),
            "controller.quorum.election.timeout.ms": random_source.pick((200, 1000, 1000)),
            "controller.quorum.fetch.timeout.ms": random_source.pick((1000, 2000, 2000)),
        },
        speed=Speed(mean_ms=random_source.pick((0.2, 0.2, 2.0, 20.0))),
        per_minute=random_source.pick((6.0, 12.0, 20.0)),
        slowness=random_source.pick((1.0, 1.0, 10.0, 30.0)),
        is_beyond=seed % 10 == 9,
    )


async def scenario(
    simulation: Simulation,
    nodes: Sequence[SimulatedController],
    rules: Rules,
    outcome: Outcome,
    seconds: float,
    kinds: Sequence[str],
    drawn: Draw,
) -> None:
    await asyncio.gather(*(node.start() for node in nodes))
    faults = QuorumFaults(simulation, kinds=kinds, nodes=nodes, rules=rules)
    writers = [Writer(simulation, number, nodes, rules, outcome) for number in range(CLIENTS)]
    end = simulation.now + seconds
    await asyncio.gather(
        faults.run(seconds=seconds, per_minute=max(drawn.per_minute, 300.0 / seconds)),
        *(writer.run(end) for writer in writers),
    )
    outcome.faults = faults.count
    calm = quorum_calm.Calm(simulation, nodes, faults.operator, outcome.acknowledged)
    await calm.until(LEADER_SECONDS, "a leader serves", calm.has_leader)
    await calm.all_vote(AGREE_SECONDS)
    await calm.until(AGREE_SECONDS, "all controllers know what is acknowledged", calm.agree)
    await calm.keeps_its_leader()
    await calm.replaces_its_leader()
    await calm.until(AGREE_SECONDS, "all controllers agree again", calm.agree)
    if drawn.is_beyond:
        await calm.rests_without_most_disks()


def run_seed(seed: int, seconds: float = SECONDS, *, count: int = 0, kinds: Sequence[str] = QUORUM_KINDS) -> Outcome:
    """Run one seed with 3 or 5 controllers, or `count`. Raises AssertionError if a rule is broken."""
    outcome = Outcome()
    try:
        _run(seed, seconds, count, kinds, outcome)
    except Exception as error:
        error.add_note(f"python -m tests.simulation.quorum --seed {seed} --seconds {seconds}")
        raise
    return outcome


def _run(seed: int, seconds: float, count: int, kinds: Sequence[str], outcome: Outcome) -> None:
    with Simulation(seed) as simulation:
        drawn = draw(seed, simulation, count)
        simulation.network.speed = drawn.speed
        nodes = simulation.quorum(drawn.nodes, drawn.config, as_objects=drawn.as_objects)
        for node in nodes:
            node.host.device.slowness = drawn.slowness
        rules = Rules(simulation, nodes)
        simulation.check_after_each_event(rules.at_any_moment)
        simulation.check_every(CHECK_EVENTS, rules.of_whole_logs)
        work = scenario(simulation, nodes, rules, outcome, seconds, kinds, drawn)
        simulation.run(work, seconds=10 * seconds + 600)
        rules.of_whole_logs()
        outcome.elections = len(rules.leaders)
        outcome.digest, outcome.events = simulation.trace.digest, simulation.timeline.events


def describe(seed: int, seconds: float) -> str:
    """Run a seed and return its result as a line."""
    outcome = run_seed(seed, seconds)
    return (
        f"{outcome.digest} {outcome.events} events, {outcome.operations} operations, "
        f"{outcome.faults} faults, {outcome.elections} leaders, {len(outcome.acknowledged)} acknowledged"
    )


if __name__ == "__main__":
    run_seeds(__doc__, describe, SECONDS)

"""The scenario of a cluster: what it told its clients holds, whatever happens to its brokers and controllers.

`python -m tests.simulation.cluster --seed 7` runs one seed and prints what it did; --seeds 30 runs so many.

Clients make and delete topics of one to three replicas, produce with acks=all (every record is flushed before it is
acknowledged), read, commit offsets and take producer ids, through brokers that chance picks, while faults come as the
seed has them. Rules are checked all the while (cluster_rules.py, cluster_ledger.py). Then all is healed: within a
bound every broker must be unfenced, every partition led, and all images equal; then everything is read back. One seed
in three has brokers that are controllers too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kwire.cluster.image import NO_LEADER
from kwire.simulation import SimulatedCluster, Simulation, Speed
from tests.simulation.cluster_clients import Client
from tests.simulation.cluster_faults import CLUSTER_KINDS, ClusterFaults
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.cluster_rules import ClusterRules
from tests.simulation.seeds import run_seeds

SECONDS = 60.0
CLIENTS = 5
HEAL_SECONDS = 40.0
"""Within which a healed cluster must serve everything: an election, a session, and what is done after them."""
CHECK_EVENTS = 1000
FLUSH_MESSAGES = 1


@dataclass(slots=True)
class Outcome:
    """What a seed came to."""

    digest: str = ""
    events: int = 0
    faults: int = 0
    operations: int = 0
    acknowledged: int = 0
    commits: int = 0
    topics: int = 0
    deleted: int = 0
    healed_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What a seed decides before it begins."""

    controllers: int
    """0: the brokers are the controllers."""
    as_objects: bool
    """Three of four seeds pass the quorum's messages as objects, without the codec."""
    config: dict[str, object]
    session_seconds: float
    speed: Speed
    per_minute: float


def draw(seed: int, simulation: Simulation) -> Draw:
    chance = simulation.chance.child("draw")
    session_ms = chance.pick((3000, 6000, 9000))
    return Draw(
        controllers=0 if seed % 3 == 0 else 3,
        as_objects=seed % 4 != 0,
        config={
            "broker.session.timeout.ms": session_ms,
            "broker.heartbeat.interval.ms": session_ms // chance.pick((4, 6)),
            "offsets.topic.num.partitions": 3,
            "metadata.log.max.record.bytes.between.snapshots": chance.pick((3000, 20_000, 20_000_000)),
            "metadata.max.retention.bytes": chance.pick((5000, 100_000_000)),
        },
        session_seconds=session_ms / 1000,
        speed=Speed(mean_ms=chance.pick((0.2, 0.2, 2.0, 20.0))),
        per_minute=chance.pick((6.0, 12.0)),
    )


class Healed:
    """The end of a scenario: all nodes run, and the network is whole."""

    def __init__(self, simulation: Simulation, cluster: SimulatedCluster, ledger: Ledger) -> None:
        self._simulation = simulation
        self._cluster = cluster
        self._ledger = ledger

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = self._simulation.now + HEAL_SECONDS
        while not holds():
            assert self._simulation.now < deadline, f"not within {HEAL_SECONDS} s: {what}"
            await asyncio.sleep(0.1)

    def serves(self) -> bool:
        """Whether all nodes know the same, all brokers are unfenced, every partition is led, and all are in sync."""
        logs = [node.metadata_log for node in self._cluster.nodes]
        images = [log.image for log in logs if log is not None]
        if len(images) < len(logs) or any(image != images[0] for image in images):
            return False
        image = images[0]
        return (
            len(image.brokers) == len(self._cluster.brokers)
            and not any(broker.fenced for broker in image.brokers.values())
            and all(set(part.isr) == set(part.replicas) for topic in image.topics.values() for part in topic.partitions)
            and all(part.leader != NO_LEADER for topic in image.topics.values() for part in topic.partitions)
        )

    def check_topics(self) -> None:
        """What was created is there, and what was deleted is not."""
        log = self._cluster.nodes[0].metadata_log
        assert log is not None
        topics = {name: (topic.topic_id, len(topic.partitions)) for name, topic in log.image.topics.items()}
        lost = [name for name, made in self._ledger.topics.items() if topics.get(name) != made]
        assert not lost, f"lost: topics {lost} were created, so they said"
        back = self._ledger.deleted.intersection(log.image.topic_names)
        assert not back, f"topics {back} were deleted, so they said"

    async def read_back(self, clients: Sequence[Client]) -> None:
        """Everything that was acknowledged, from the beginning of each partition."""
        for _, key in list(self._ledger.partitions()):
            last = max(self._ledger.records.get(key, {}), default=-1)
            offset = 0
            while offset <= last:
                end = await self._insist(f"read {key}", partial(clients[0].read_from, key, offset))
                assert end > offset, f"lost: {key} ends at {offset}, and a record was acknowledged at {last}"
                offset = end
        for (group, name, index), offset in self._ledger.commits.items():
            if name not in self._ledger.topics:
                continue
            client = next(each for each in clients if each.name == group)
            found = await self._insist(f"offsets of {group}", partial(client.committed, name, index))
            tried = self._ledger.tried_commits[group, name, index]
            assert offset <= found <= tried, f"lost: {group} committed {offset} of {name}-{index}, and finds {found}"

    async def _insist(self, what: str, ask: Callable[[], Awaitable[int | None]]) -> int:
        deadline = self._simulation.now + HEAL_SECONDS
        while self._simulation.now < deadline:
            try:
                if (found := await ask()) is not None:
                    return found
            except OSError:
                pass
            await asyncio.sleep(0.1)
        raise AssertionError(f"not within {HEAL_SECONDS} s: {what}")


async def scenario(
    simulation: Simulation,
    cluster: SimulatedCluster,
    ledger: Ledger,
    outcome: Outcome,
    seconds: float,
    kinds: Sequence[str],
    drawn: Draw,
) -> None:
    await cluster.start()
    faults = ClusterFaults(simulation, cluster, kinds=kinds, session_seconds=drawn.session_seconds)
    clients = [Client(simulation, cluster.brokers, ledger, f"c{number}") for number in range(CLIENTS)]
    end = simulation.now + seconds
    await asyncio.gather(
        faults.run(seconds=seconds, per_minute=max(drawn.per_minute, 300.0 / seconds)),
        *(client.run(end) for client in clients),
    )
    outcome.faults = faults.count
    began = simulation.now
    healed = Healed(simulation, cluster, ledger)
    await healed.until("all brokers live, all partitions are led and in sync, all nodes know the same", healed.serves)
    outcome.healed_seconds = simulation.now - began
    healed.check_topics()
    await healed.read_back(clients)
    for client in clients:
        client.close()


def run_seed(
    seed: int,
    seconds: float = SECONDS,
    *,
    kinds: Sequence[str] = CLUSTER_KINDS,
    flush_messages: int = FLUSH_MESSAGES,
) -> Outcome:
    """One seed. Raises AssertionError when a rule is broken."""
    outcome, ledger = Outcome(), Ledger()
    with Simulation(seed) as simulation:
        drawn = draw(seed, simulation)
        simulation.network.speed = drawn.speed
        config = drawn.config | {"log.flush.interval.messages": flush_messages}
        cluster = simulation.cluster(
            brokers=3, controllers=drawn.controllers, config=config, as_objects=drawn.as_objects
        )
        rules = ClusterRules(simulation, cluster, ledger)
        simulation.check_after_each_event(rules.at_any_moment)
        simulation.check_every(CHECK_EVENTS, rules.of_whole_logs)
        work = scenario(simulation, cluster, ledger, outcome, seconds, kinds, drawn)
        simulation.run(work, seconds=10 * seconds + 600)
        rules.of_whole_logs()
        outcome.digest, outcome.events = simulation.trace.digest, simulation.timeline.events
    outcome.operations, outcome.acknowledged = ledger.operations, ledger.acknowledged
    outcome.commits, outcome.topics, outcome.deleted = len(ledger.commits), len(ledger.topics), len(ledger.deleted)
    return outcome


def describe(seed: int, seconds: float) -> str:
    """What a seed came to, in a line."""
    outcome = run_seed(seed, seconds)
    return (
        f"{outcome.digest} {outcome.events} events, {outcome.operations} operations, {outcome.faults} faults, "
        f"{outcome.acknowledged} records, {outcome.commits} commits, {outcome.topics} topics, "
        f"{outcome.deleted} deleted, healed after {outcome.healed_seconds:.1f} s"
    )


if __name__ == "__main__":
    run_seeds(__doc__, describe, SECONDS)

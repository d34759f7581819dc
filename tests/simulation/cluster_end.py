"""End of a cluster's scenario: all nodes run, the network is whole, and all acknowledged data must be found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from kwire.cluster.metadata.image import NO_LEADER, PartitionImage
from kwire.simulation import SimulatedCluster, Simulation
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_clients import Client
from tests.simulation.cluster_ledger import Ledger, PartitionKey
from tests.simulation.image_rules import places
from tests.simulation.promise import newest_image

HEAL_SECONDS = 40.0
"""Time limit until a healed cluster serves all requests: an election, a broker session, and the changes that follow."""


def _is_at_rest(partition: PartitionImage) -> bool:
    is_moving = partition.adding_replicas or partition.removing_replicas
    return partition.leader != NO_LEADER and set(partition.isr) == set(partition.replicas) and not is_moving


async def _read_on(client: Client, key: PartitionKey, offset: int) -> int | None:
    """Return the end of the readable records. None at the start: a new leader must first receive fetches of its
    followers.
    """
    end = await client.read_from(key, offset)
    return None if end == offset else end


class Healed:
    """Checks of a healed cluster."""

    def __init__(self, simulation: Simulation, cluster: SimulatedCluster, ledger: Ledger) -> None:
        self._simulation = simulation
        self._cluster = cluster
        self._ledger = ledger

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        deadline = self._simulation.now + HEAL_SECONDS
        while not holds():
            assert self._simulation.now < deadline, f"Q13: not within {HEAL_SECONDS} s: {what}"
            await asyncio.sleep(0.1)

    def lives(self) -> bool:
        """Return True if all nodes have the same image, and all brokers are unfenced."""
        logs = [node.metadata_log for node in self._cluster.nodes]
        images = [log.image for log in logs if log is not None]
        if len(images) < len(logs) or any(image != images[0] for image in images):
            return False
        brokers = images[0].brokers
        return len(brokers) == len(self._cluster.brokers) and not any(broker.fenced for broker in brokers.values())

    def serves(self) -> bool:
        """Return True if, in addition, every partition has a leader, and all replicas are in sync."""
        closed = self.closed
        return self.lives() and all(
            _is_at_rest(partition) or (topic.name, index) in closed
            for topic, index, partition in places(newest_image(self._cluster))
        )

    @property
    def closed(self) -> set[tuple[str, int]]:
        """Return the partitions closed on a broker whose disk was replaced, which may only happen with more faults than
        promised.
        """
        if not self._ledger.forgiven:
            return set()
        return {place for broker in self._cluster.brokers for place in broker.server.services.partitions._closed}

    async def rescue(self, operator: Administrator) -> None:
        """Elect a leader for partitions without an eligible one.

        After a change of min.insync.replicas, Kafka's controller forgets eligible leaders too.
        """
        image = newest_image(self._cluster)
        for topic, index, part in places(image):
            if not (part.isr or part.eligible_leader_replicas or part.last_known_elr):
                self._ledger.forgive((topic.topic_id, index))
                await operator.elect_anybody(topic.name, index)

    def replicas_agree(self) -> bool:
        """Return True if all replicas of each partition have the same log end offset and high watermark.

        With more faults than promised, high watermarks are ignored.
        """
        ends: dict[tuple[str, int], set[tuple[int, int]]] = {}
        for broker in self._cluster.brokers:
            for partition in broker.server.services.partitions:
                end = partition.log.log_end_offset
                if (partition.topic, partition.index) in self.closed:
                    continue
                committed = end if self._ledger.forgiven else partition.high_watermark
                ends.setdefault((partition.topic, partition.index), set()).add((committed, end))
        return all(len(found) == 1 and max(found)[0] == max(found)[1] for found in ends.values())

    def check_topics(self) -> None:
        """Check that created topics exist and deleted ones do not."""
        log = self._cluster.nodes[0].metadata_log
        assert log is not None
        topics = {name: (topic.topic_id, len(topic.partitions)) for name, topic in log.image.topics.items()}
        lost = [name for name, made in self._ledger.topics.items() if topics.get(name) != made]
        assert not lost, f"Q5: lost: topics {lost} were created, so they said"
        back = self._ledger.deleted.intersection(log.image.topic_names)
        assert not back, f"R18: topics {back} were deleted, so they said"

    async def read_back(self, clients: Sequence[Client]) -> None:
        """Read all acknowledged records, from the beginning of each partition."""
        for _, key in list(self._ledger.partitions()):
            last = max(self._ledger.records.get(key, {}), default=-1)
            offset = 0
            while offset <= last and key not in self._ledger.forgiven:
                what = f"read {key} beyond {offset}, as a record was acknowledged at {last}"
                offset = await self._insist(what, partial(_read_on, clients[0], key, offset))
            missing = set(self._ledger.records.get(key, {})) - set(self._ledger.read.get(key, {}))
            assert not missing or key in self._ledger.forgiven, f"R1: lost: {key} has nothing at {sorted(missing)}"

    def has_forgiven(self, *names: str) -> bool:
        """Return True if one of these topics may lack records."""
        topics = newest_image(self._cluster).topics
        ids = {topics[name].topic_id for name in names if name in topics}
        return any(topic_id in ids for topic_id, _ in self._ledger.forgiven)

    async def read_commits(self, clients: Sequence[Client]) -> None:
        """Read the offsets that each client committed for its group."""
        for (group, topic_id, index), offset in self._ledger.commits.items():
            if topic_id not in {known for known, _ in self._ledger.topics.values()}:
                continue
            client = next(each for each in clients if each.name == group)
            found = await self._insist(f"offsets of {group}", partial(client.committed, topic_id, index))
            tried = self._ledger.tried_commits[group, topic_id, index]
            assert offset <= found <= tried, (
                f"G4: lost: {group} committed {offset} of {topic_id} {index}; there is {found}"
            )

    async def _insist(self, what: str, ask: Callable[[], Awaitable[int | None]]) -> int:
        deadline = self._simulation.now + HEAL_SECONDS
        while self._simulation.now < deadline:
            try:
                if (found := await ask()) is not None:
                    return found
            except OSError:
                pass
            await asyncio.sleep(0.1)
        raise AssertionError(f"Q13: not within {HEAL_SECONDS} s: {what}")

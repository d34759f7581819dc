"""Setup and end of the share group in a simulated cluster: its configuration, the drain of its records, and the check.

At the end a last member joins and accepts all records that the others left. Every record must be done within a time
limit, and the history must have no anomaly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kwire.protocol.error_codes import ErrorCode
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.simulation import ClusterBroker, SimulatedCluster, Simulation
from kwire.simulation.random_source import SeededRandomSource
from tests.history.share_events import ACCEPT, Start
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_end import HEAL_SECONDS
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.share_history import PARTITIONS, SHARE_GROUP, TOPIC, ShareHistory
from tests.simulation.share_members import Ending, Session, ShareMember, ShareProducer, ranges_of
from tests.support.requests import group_configs

MEMBERS: Final = ("s0", "s1", "s2")
SET: Final = 0
DRAIN_SECONDS: Final = 0.1
LIMITS: Final = (2, 3, 5)
LOCK_SECONDS: Final = (1, 2, 4)


def share_config(random_source: SeededRandomSource) -> dict[str, object]:
    """Return broker settings of share groups: short locks and sessions, and few deliveries."""
    return {
        "group.share.record.lock.duration.ms": 1000 * random_source.pick(LOCK_SECONDS),
        "group.share.min.record.lock.duration.ms": 1000,
        "group.share.delivery.count.limit": random_source.pick(LIMITS),
        "group.share.session.timeout.ms": 6000,
        "group.share.min.session.timeout.ms": 6000,
        "group.share.heartbeat.interval.ms": 1000,
        "group.share.min.heartbeat.interval.ms": 1000,
        "group.share.assignment.interval.ms": random_source.pick((0, 1000)),
        "group.share.initialize.retry.interval.ms": 2000,
        "share.coordinator.state.topic.num.partitions": 2,
        "share.coordinator.snapshot.update.records.per.snapshot": random_source.pick((5, 500)),
        "share.coordinator.state.topic.prune.interval.ms": random_source.pick((2000, 300_000)),
        "share.coordinator.cold.partition.snapshot.interval.ms": random_source.pick((5000, 300_000)),
    }


class LastMember(ShareMember):
    """Member that accepts all records."""

    def endings_of(self, session: Session) -> list[Ending]:
        """Return acknowledgements of all records that the session has."""
        return [
            Ending(index, first, last, ACCEPT, self._history.lease(session.broker_id, index))
            for index in sorted(session.held)
            for first, last in ranges_of(session.held[index])
        ]


class ShareGroup:
    """Share group of a scenario, with its clients."""

    def __init__(
        self, simulation: Simulation, cluster: SimulatedCluster, ledger: Ledger, config: dict[str, object]
    ) -> None:
        self._simulation = simulation
        self._cluster = cluster
        lock_ms, limit = config["group.share.record.lock.duration.ms"], config["group.share.delivery.count.limit"]
        assert isinstance(lock_ms, int)
        assert isinstance(limit, int)
        self.history = ShareHistory(simulation, cluster.brokers, lock_seconds=lock_ms / 1000, limit=limit)
        brokers = cluster.brokers
        self.clients: Sequence[ShareProducer | ShareMember] = [
            ShareProducer(simulation, brokers, ledger, self.history),
            *(ShareMember(simulation, brokers, ledger, self.history, name) for name in MEMBERS),
        ]
        self._last = LastMember(simulation, brokers, ledger, self.history, "s-last")

    async def prepare(self, administrator: Administrator) -> None:
        """Create the topic, and let the group begin with the earliest records."""
        request = group_configs(SHARE_GROUP, {"share.auto.offset.reset": "earliest"})
        (answer,) = (await administrator.ask(1, request, 1)).responses
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.history.topic_id = await administrator.create_for_good(TOPIC, PARTITIONS)  # brokers learn of it later

    async def conclude(self) -> None:
        """Drain the share group in a healed cluster, and check its history. Raises AssertionError."""
        deadline = self._simulation.now + HEAL_SECONDS
        while not self._is_drained():
            assert self._simulation.now < deadline, f"Q13: not within {HEAL_SECONDS} s: all shared records are done"
            try:
                await self._last.step("fetch")
                await self._last.acknowledge()
            except OSError:
                self._last.end_life()
            await asyncio.sleep(DRAIN_SECONDS)
        self._note_ends()
        self._last.close()
        self.history.check(is_drained=True)

    def _led(self, broker: ClusterBroker, index: int) -> LedSharePartition | None:
        partition = broker.server.services.partitions.get(TOPIC, index)
        if partition is None or not partition.is_led:
            return None
        return broker.server.services.share_partitions.get(SHARE_GROUP, (self.history.topic_id, index))

    def _loaded(self) -> dict[int, LedSharePartition]:
        found = {
            index: led
            for broker in self._cluster.brokers
            for index in range(PARTITIONS)
            if (led := self._led(broker, index))
        }
        return {index: led for index, led in found.items() if led.state is not None}

    def _is_drained(self) -> bool:
        """Return True if all records of all partitions are done, for their leaders."""
        loaded = self._loaded()
        return len(loaded) == PARTITIONS and all(
            led.state is not None and led.state.start_offset >= led.partition.high_watermark for led in loaded.values()
        )

    def _note_ends(self) -> None:
        now = self._simulation.now
        for index, led in self._loaded().items():
            assert led.state is not None
            self.history.note(Start(partition=index, invoked=now, completed=now, offset=led.state.start_offset))

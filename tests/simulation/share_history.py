"""Recorder of a share group's events in a simulated cluster, and its check at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.simulation import ClusterBroker, Simulation
from kwire.simulation.hosts import Process
from tests.history.share_checker import (
    DOUBLE,
    EXCEEDED,
    FOREIGN,
    LOST,
    LOWER,
    REPEATED,
    REWOUND,
    SKIPPED,
    Finding,
    check_shares,
)
from tests.history.share_events import Acknowledged, Delivery, Event, Lease

TOPIC: Final = "shared"
PARTITIONS: Final = 2
SHARE_GROUP: Final = "sharers"
STATE_TOPIC: Final = "__share_group_state"
RULES: Final = {
    DOUBLE: "A1",
    FOREIGN: "A1",
    LOWER: "A2",
    EXCEEDED: "A2",
    REPEATED: "A3",
    LOST: "A4",
    SKIPPED: "A4",
    REWOUND: "A4",
}
"""Invariants by the anomalies that break them."""


class ShareHistory:
    """Events of all members of the share group."""

    def __init__(
        self, simulation: Simulation, brokers: Sequence[ClusterBroker], *, lock_seconds: float, limit: int
    ) -> None:
        self.lock_seconds = lock_seconds
        self.limit = limit
        """Delivery limit of the group."""
        self.topic_id = UUID(int=0)
        """Id of the topic, once it is created."""
        self.events: list[Event] = []
        self._simulation = simulation
        self._brokers = {broker.node_id: broker for broker in brokers}
        self._processes: dict[Process, int] = {}
        self._loaded: dict[tuple[Process, int], list[LedSharePartition]] = {}
        """Share partitions that a process has loaded, by partition."""

    @property
    def now(self) -> float:
        return self._simulation.now

    def note(self, event: Event) -> None:
        """Record an event."""
        self.events.append(event)

    def lease(self, broker_id: int, index: int) -> Lease | None:
        """Return the time for which a broker keeps the state of a share partition; None if it does not lead it.

        It ends with the process, with the leader epoch, or when the state is dropped, as that of an empty group. The
        next state is loaded from the share coordinator, which never learns of acquisitions.
        """
        broker = self._brokers[broker_id]
        process = broker.host.process
        if process is None or not broker.is_serving:
            return None
        partition = broker.server.services.partitions.get(TOPIC, index)
        if partition is None or not partition.is_led:
            return None
        number = self._processes.setdefault(process, len(self._processes))
        loaded = self._loaded.setdefault((process, index), [])
        led = broker.server.services.share_partitions.get(SHARE_GROUP, (self.topic_id, index))
        if led is not None and led not in loaded:
            loaded.append(led)
        load = len(loaded) if led is None else loaded.index(led)
        return Lease(partition.leader_epoch, number, load)

    @property
    def deliveries(self) -> int:
        """Return the number of delivered ranges."""
        return sum(isinstance(event, Delivery) for event in self.events)

    @property
    def acknowledgements(self) -> int:
        """Return the number of acknowledged ranges that were stored."""
        return sum(isinstance(event, Acknowledged) and event.outcome == "ok" for event in self.events)

    def check(self, *, is_drained: bool) -> None:
        """Check the history. Raises AssertionError for an anomaly."""
        found: list[Finding] = check_shares(
            self.events, lock_seconds=self.lock_seconds, limit=self.limit, is_drained=is_drained
        )
        if found:
            listed = "; ".join(f"{each.name}: {each.text}" for each in found[:5])
            raise AssertionError(f"{RULES[found[0].name]}: {listed}")

"""Preferred read replica of a leader (KIP-392), against the metadata and the fetches of followers.

- named: it is in sync, not fenced, in the consumer's rack, not the leader, and has the requested records
- missed: if there is such a replica, the response names one
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, cast

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.partitions.partition import Partition
from kwire.log.config import LogConfig
from kwire.log.recovery import Surroundings
from kwire.protocol.messages.fetch import FetchPartition
from kwire.server.fetching import closest_replica
from kwire.server.requests.context import RequestContext
from kwire.server.settings.setting_rules import RACK_AWARE_SELECTOR
from tests.cluster.replication.world import TOPIC_ID, KnownPeers, append, fetched, image
from tests.coordinator.world import no_group_commit
from tests.crash.disk import RecordingDisk
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.log.support import FixedChance, ManualClock, open_at

LEADER: Final = 1
REPLICAS: Final = (1, 2, 3, 4)
RACKS: Final = ("a", "b", "c")


@dataclass
class Follower:
    """State of a broker in the model."""

    rack: str
    fenced: bool = False
    end: int = -1
    """Offset up to which it has fetched, as known by its leader."""


class ClosestModel:
    """Model of a leader's choices."""

    def __init__(self) -> None:
        self._peers = KnownPeers(LEADER)
        self._peers.epochs = {broker: 100 + broker for broker in REPLICAS}
        self._brokers = {broker: Follower(RACKS[broker % len(RACKS)]) for broker in REPLICAS}
        self._image = image(REPLICAS, replicas=REPLICAS, leader=LEADER)
        disk = RecordingDisk({"log": {}})
        surroundings = Surroundings(disk=disk, clock=ManualClock(), random_source=FixedChance())
        self._partition = Partition(
            topic="t",
            topic_id=TOPIC_ID,
            index=0,
            image=self._image,
            log=open_at(cast("Any", "/log"), LogConfig(), surroundings),
            group_commit=no_group_commit(),
            peers=self._peers,
            is_led=True,
            high_watermark=0,
        )

    def close(self) -> None:
        self._partition.log.close(clean=False)

    def do(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.a, operation.b)

    def finish(self) -> None:
        for rack in range(len(RACKS)):
            self.ask(rack, 0)

    # --- operations

    def write(self, a: int, b: int) -> None:
        append(self._partition, *[b"v"] * (1 + a % 3))

    def fetch(self, a: int, b: int) -> None:
        """Fetch as a follower from its log end, which may be anywhere up to the leader's."""
        broker = REPLICAS[1 + a % (len(REPLICAS) - 1)]
        known = self._brokers[broker]
        end = self._partition.log.log_end_offset
        known.end = max(known.end, end if b % 2 else b // 2 % (end + 1))
        fetched(self._partition, broker, known.end)

    def change_in_sync(self, a: int, b: int) -> None:
        """Change the in-sync set at the controller."""
        isr = (LEADER, *(broker for bit, broker in enumerate(REPLICAS[1:]) if a >> bit & 1))
        self._image = replace(self._image, isr=isr, partition_epoch=self._image.partition_epoch + 1)
        self._partition.update(self._image, is_led=True)

    def fence(self, a: int, b: int) -> None:
        """Fence a broker, or unfence it."""
        known = self._brokers[REPLICAS[a % len(REPLICAS)]]
        known.fenced = not known.fenced

    def move(self, a: int, b: int) -> None:
        """Restart a broker in another rack."""
        self._brokers[REPLICAS[a % len(REPLICAS)]].rack = RACKS[b % len(RACKS)]

    def ask(self, a: int, b: int) -> None:
        """Fetch as a consumer in a rack."""
        rack, offset = RACKS[a % len(RACKS)], b % (self._partition.log.log_end_offset + 1)
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
        found = closest_replica.closer_replica(self._partition, asked, rack, self._context())
        can = {
            broker
            for broker, known in self._brokers.items()
            if broker in self._image.isr
            and broker != LEADER
            and known.rack == rack
            and not known.fenced
            and 0 <= offset <= known.end
        }
        if self._brokers[LEADER].rack == rack:
            assert found is None, f"named: {found}, and the leader is in rack {rack} itself"
        elif found is not None:
            assert found in can, f"named: {found} for {offset} in rack {rack}, where {can} can serve"
        else:
            assert not can, f"missed: {can} can serve {offset} in rack {rack}"

    def _context(self) -> RequestContext:
        brokers = {
            broker: SimpleNamespace(rack=known.rack, fenced=known.fenced) for broker, known in self._brokers.items()
        }
        changed = {"replica.selector.class": RACK_AWARE_SELECTOR, "broker.rack": self._brokers[LEADER].rack}
        settings = CurrentSettings(default_settings() | changed)
        services = SimpleNamespace(
            settings=settings, image=SimpleNamespace(brokers=brokers), endpoint=lambda broker, listener: "there"
        )
        return cast("RequestContext", SimpleNamespace(services=services, listener_name="PLAINTEXT"))


CLOSEST_FUZZER: Final = Fuzzer(
    "closest",
    ClosestModel,
    {"write": 4, "fetch": 8, "change_in_sync": 4, "fence": 2, "move": 2, "ask": 10},
    steps=40,
    seeds=30,
)

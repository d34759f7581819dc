"""Replicas of one partition, each on its own broker, and the leader's view of other brokers."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.follower import UNKNOWN_EPOCH
from kwire.cluster.partitions.partition import Partition
from kwire.log.config import LogConfig
from kwire.protocol.records import decode_all
from tests.coordinator.world import no_group_commit
from tests.log.support import ManualClock, open_at
from tests.support.requests import batch

LAG_MAX_MS = 1000.0
TOPIC_ID = UUID(int=7)


class KnownPeers:
    """Peers whose state a test sets."""

    def __init__(self, broker_id: int = 1) -> None:
        self.broker_id = broker_id
        self.clock = ManualClock()
        self.epochs = {1: 101, 2: 102, 3: 103}
        """Broker epochs of the brokers that may join the in-sync set."""
        self.leaving: set[int] = set()
        """Brokers that are alive and may not join the in-sync set."""
        self.sent_proposals: list[Partition] = []

    def broker_epoch(self) -> int:
        return self.epochs[self.broker_id]

    def now_ms(self) -> float:
        return self.clock.monotonic_ms()

    def lag_max_ms(self) -> float:
        return LAG_MAX_MS

    def can_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        return broker_id in self.epochs and broker_epoch in (UNKNOWN_EPOCH, self.epochs[broker_id])

    def is_unfenced(self, broker_id: int) -> bool:
        return broker_id in self.epochs or broker_id in self.leaving

    def is_superseded(self, broker_id: int, broker_epoch: int) -> bool:
        return broker_epoch != UNKNOWN_EPOCH and broker_epoch < self.epochs.get(broker_id, UNKNOWN_EPOCH)

    def send_proposal(self, partition: Partition) -> None:
        self.sent_proposals.append(partition)


def image(
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        directories=tuple(UUID(int=1000 + broker) for broker in replicas),
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


def replica(
    directory: Path,
    of: PartitionImage,
    peers: KnownPeers,
    *,
    min_insync_replicas: int = 1,
    flush_messages: int = 2**63 - 1,
    high_watermark: int = 0,
) -> Partition:
    """Return the replica of one broker in its state after a start."""
    config = LogConfig(min_insync_replicas=min_insync_replicas, flush_messages=flush_messages)
    return Partition(
        topic="t",
        topic_id=TOPIC_ID,
        index=0,
        image=of,
        log=open_at(directory / f"broker-{peers.broker_id}", config),
        group_commit=no_group_commit(),
        peers=peers,
        is_led=of.leader == peers.broker_id,
        high_watermark=high_watermark,
    )


def append(partition: Partition, *values: bytes) -> None:
    """Append as a client does with acks=1."""
    for value in values:
        partition.append(batch(value), 1)


def values_of(partition: Partition, end: int | None = None) -> list[bytes | None]:
    """Return the values of all records in the log below `end`."""
    log = partition.log
    data = log.read(log.log_start_offset, 2**30, limit_offset=log.log_end_offset if end is None else end)
    return [record.value for record in decode_all(data)]


def fetched(leader: Partition, broker_id: int, offset: int, *, broker_epoch: int | None = None) -> None:
    """Fetch at an offset as a follower whose log agrees with the leader's up to there."""
    leader.follower_fetched(
        broker_id,
        offset=offset,
        log_start_offset=0,
        broker_epoch=100 + broker_id if broker_epoch is None else broker_epoch,
        epoch=leader.leader_epoch,
    )


def copy(leader: Partition, follower: Partition) -> None:
    """Copy one whole fetch to a follower, without a check that the logs agree."""
    data = leader.log.read(follower.log.log_end_offset, 2**30)
    follower.append_as_follower(
        data,
        leader_epoch=leader.leader_epoch,
        high_watermark=leader.high_watermark,
        log_start_offset=leader.log.log_start_offset,
    )


class Watching:
    """A waiter that records the byte counts of the partition's notifications."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def data_available(self, size: int) -> None:
        self.sizes.append(size)

    def state_changed(self) -> None:
        self.sizes.append(0)

"""What `kwire cluster status` knows of a cluster, and when it calls it healthy."""

from __future__ import annotations

from dataclasses import dataclass

NOBODY = -1
SILENT_MS_MAX = 5000
"""After so long without a fetch, a voter is missing: it asks at least twice a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One that is registered."""

    broker_id: int
    address: str
    rack: str | None
    is_fenced: bool
    trouble: str | None
    """Why it could not be asked; None if it answered."""
    partitions: int
    leads: int
    """How many partitions it has replicas of, and how many of these it leads."""
    lag_sum: int | None
    lag_max: int | None
    """By how many records its replicas are behind their leaders, together and the worst; None if it is not known."""

    @property
    def is_healthy(self) -> bool:
        return not self.is_fenced and self.trouble is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A controller that votes."""

    node_id: int
    address: str | None
    is_leader: bool
    lag: int | None
    """By how many metadata records it is behind the leader; None if it is not known."""
    silent_ms: int | None
    """Since the leader last heard of it; None if it never did."""

    @property
    def is_healthy(self) -> bool:
        return self.is_leader or (self.silent_ms is not None and self.silent_ms <= SILENT_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Of the controllers, as its leader describes it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Voter, ...]
    observers: int
    trouble: str | None = None
    """Why it could not be described."""

    @property
    def is_healthy(self) -> bool:
        return self.trouble is None and self.leader_id != NOBODY and all(voter.is_healthy for voter in self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One with something to say about it."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    in_sync_min: int
    lags: tuple[int | None, ...]
    """Of the replicas, in their order, in records behind the leader; None where it is not known."""

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.in_sync)

    @property
    def is_offline(self) -> bool:
        return self.leader == NOBODY

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether it takes no records of acks=all: who has fewer replicas than that needs them all."""
        return len(self.in_sync) < min(self.in_sync_min, len(self.replicas))

    @property
    def is_healthy(self) -> bool:
        return not (self.is_offline or self.is_under_replicated or self.is_under_min_isr)

    @property
    def states(self) -> tuple[str, ...]:
        """Its troubles, in Kafka's words, the worst first."""
        named = {
            "offline": self.is_offline,
            "under-min-isr": self.is_under_min_isr and not self.is_offline,
            "under-replicated": self.is_under_replicated,
        }
        return tuple(name for name, holds in named.items() if holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """All of it, as of one moment, more or less: each broker is asked by itself."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    quorum: Quorum
    topics: int
    partitions: int
    replicas: int
    unhealthy: tuple[Partition, ...]

    @property
    def is_healthy(self) -> bool:
        return not self.unhealthy and self.quorum.is_healthy and all(broker.is_healthy for broker in self.brokers)

    def count(self, state: str) -> int:
        """How many partitions are in this state."""
        return sum(state in partition.states for partition in self.unhealthy)

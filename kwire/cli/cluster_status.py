"""Status of a cluster as `kwire cluster status` found it, and the rules by which it is healthy."""

from __future__ import annotations

from dataclasses import dataclass

NOBODY = -1
SILENT_MS_MAX = 5000
"""After so long without a fetch, a voter is missing: it asks at least twice a second."""


SPACE_LEAST_BYTES = 1 << 20
"""Of a log directory: with less, a batch of the default max.message.bytes may find no space."""
UNREACHABLE = "UNREACHABLE"
"""Error of a replica whose broker did not answer; the others are Kafka's error codes."""
STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A log directory of a broker, as DescribeLogDirs shows it."""

    path: str
    error: str | None
    """KAFKA_STORAGE_ERROR if it is offline; None if it is in use."""
    usable_bytes: int
    """Space left; -1 if it is not known."""

    @property
    def is_full(self) -> bool:
        return self.error is None and 0 <= self.usable_bytes < SPACE_LEAST_BYTES

    @property
    def is_healthy(self) -> bool:
        return self.error is None and not self.is_full


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered broker."""

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
    directories: tuple[Directory, ...] = ()
    """Empty if it could not be asked."""

    @property
    def is_healthy(self) -> bool:
        return not self.is_fenced and self.trouble is None and all(each.is_healthy for each in self.directories)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A controller that votes."""

    node_id: int
    address: str | None
    is_leader: bool
    lag: int | None
    """By how many metadata records it is behind the leader; None if it is not known."""
    silent_ms: int | None
    """Since its last fetch from the leader; None if it has not fetched since this leader was elected."""

    @property
    def is_healthy(self) -> bool:
        return self.is_leader or (self.silent_ms is not None and self.silent_ms <= SILENT_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The controllers, as their leader describes them."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    """-1 until the leader has committed the first record of its epoch."""
    voters: tuple[Voter, ...]
    observers: int
    trouble: str | None = None
    """Why it could not be described."""

    @property
    def is_healthy(self) -> bool:
        is_led = self.trouble is None and self.leader_id != NOBODY and self.high_watermark >= 0
        return is_led and all(voter.is_healthy for voter in self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition, by the metadata of one broker and the answers of its replicas."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    in_sync_min: int
    lags: tuple[int | None, ...]
    """Of the replicas, in their order, in records behind the leader; None where it is not known."""
    errors: tuple[str | None, ...] = ()
    """Of the replicas, in their order: why one does not tell the end of its log. Empty where all do."""

    def error_of(self, broker_id: int) -> str | None:
        """Return the error of one replica, None if it has answered."""
        return dict(zip(self.replicas, self.errors, strict=False)).get(broker_id)

    @property
    def failed(self) -> tuple[int, ...]:
        """Replicas whose log is closed: damaged, or on a log directory that is offline."""
        return tuple(each for each in self.replicas if self.error_of(each) == STORAGE_ERROR)

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.in_sync)

    @property
    def is_offline(self) -> bool:
        return self.leader == NOBODY

    @property
    def is_unserved(self) -> bool:
        """Whether it has a leader by the metadata, which does not answer for it."""
        return not self.is_offline and self.error_of(self.leader) is not None

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether it takes no records of acks=all: who has fewer replicas than that needs them all."""
        return len(self.in_sync) < min(self.in_sync_min, len(self.replicas))

    @property
    def is_healthy(self) -> bool:
        return not self.states

    @property
    def states(self) -> tuple[str, ...]:
        """Its troubles, in Kafka's words, the worst first."""
        named = {
            "offline": self.is_offline,
            "unserved": self.is_unserved,
            "failed-replica": bool(self.failed),
            "under-min-isr": self.is_under_min_isr and not self.is_offline,
            "under-replicated": self.is_under_replicated,
        }
        return tuple(name for name, holds in named.items() if holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The whole cluster. Brokers are asked one by one, so that it is not the state of one instant."""

    cluster_id: str
    asked_broker: str
    """Address of the broker whose metadata name the brokers and partitions."""
    metadata_age_ms: int | None
    """Time since that broker had all committed metadata; None if no controller says."""
    brokers: tuple[Broker, ...]
    quorum: Quorum
    topics: int
    partitions: int
    replicas: int
    unhealthy: tuple[Partition, ...]

    @property
    def is_healthy(self) -> bool:
        is_recent = self.metadata_age_ms is None or self.metadata_age_ms <= SILENT_MS_MAX
        is_whole = not self.unhealthy and all(broker.is_healthy for broker in self.brokers)
        return is_whole and is_recent and self.quorum.is_healthy

    def count(self, state: str) -> int:
        """How many partitions are in this state."""
        return sum(state in partition.states for partition in self.unhealthy)

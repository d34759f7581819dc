"""Status of a cluster for `kwire cluster status`, and the rules by which it is healthy."""

from __future__ import annotations

from dataclasses import dataclass

NO_NODE = -1
SILENT_MS_MAX = 5000
"""Time without a fetch after which a voter is not healthy: it fetches at least twice a second."""


SPACE_LEAST_BYTES = 1 << 20
"""Least free space of a log directory: with less, a batch of the default max.message.bytes may not fit."""
UNREACHABLE = "UNREACHABLE"
"""Error of a replica whose broker did not answer; the others are Kafka's error codes."""
STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Log directory of a broker, from DescribeLogDirs."""

    path: str
    error: str | None
    """KAFKA_STORAGE_ERROR if it is offline; None if it is in use."""
    usable_bytes: int
    """Free space; -1 if it is not known."""

    @property
    def is_full(self) -> bool:
        return self.error is None and 0 <= self.usable_bytes < SPACE_LEAST_BYTES

    @property
    def is_healthy(self) -> bool:
        return self.error is None and not self.is_full


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Registered broker."""

    broker_id: int
    address: str
    rack: str | None
    is_fenced: bool
    trouble: str | None
    """Why the broker did not answer; None if it did."""
    partitions: int
    leads: int
    """Number of partitions with a replica on the broker, and number of partitions that it leads."""
    lag_sum: int | None
    lag_max: int | None
    """Lag of its replicas behind their leaders in records: sum and maximum; None if it is not known."""
    directories: tuple[Directory, ...] = ()
    """Log directories; empty if the broker did not answer."""

    @property
    def is_healthy(self) -> bool:
        return not self.is_fenced and self.trouble is None and all(each.is_healthy for each in self.directories)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """Controller that is a voter."""

    node_id: int
    address: str | None
    is_leader: bool
    lag: int | None
    """Lag behind the leader in metadata records; None if it is not known."""
    silent_ms: int | None
    """Time since its last fetch from the leader; None if it has not fetched since this leader was elected."""

    @property
    def is_healthy(self) -> bool:
        return self.is_leader or (self.silent_ms is not None and self.silent_ms <= SILENT_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Quorum of controllers, as its leader describes it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    """High watermark; -1 until the leader has committed the first record of its epoch."""
    voters: tuple[Voter, ...]
    observers: int
    trouble: str | None = None
    """Why the quorum could not be described."""

    @property
    def is_healthy(self) -> bool:
        is_led = self.trouble is None and self.leader_id != NO_NODE and self.high_watermark >= 0
        return is_led and all(voter.is_healthy for voter in self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Partition, by the metadata of one broker and the responses of its replicas' brokers."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    in_sync_min: int
    lags: tuple[int | None, ...]
    """Lags of the replicas, in their order, in records behind the leader; None if it is not known."""
    errors: tuple[str | None, ...] = ()
    """Errors of the replicas, in their order: why there is no log end offset. Empty without errors."""

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
        return self.leader == NO_NODE

    @property
    def is_unserved(self) -> bool:
        """True if the partition has a leader in the metadata that does not serve it."""
        return not self.is_offline and self.error_of(self.leader) is not None

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """True if the partition rejects records with acks=all.

        With fewer replicas than the minimum, all of them are needed.
        """
        return len(self.in_sync) < min(self.in_sync_min, len(self.replicas))

    @property
    def is_healthy(self) -> bool:
        return not self.states

    @property
    def states(self) -> tuple[str, ...]:
        """States of an unhealthy partition, in Kafka's terms, the worst first."""
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
    """Status of the whole cluster. Brokers are queried one by one, so it is not the state of one instant."""

    cluster_id: str
    asked_broker: str
    """Address of the broker whose metadata contain the brokers and partitions."""
    metadata_age_ms: int | None
    """Time since that broker had all committed metadata; None if no controller reports it."""
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
        """Return the number of partitions in this state."""
        return sum(state in partition.states for partition in self.unhealthy)

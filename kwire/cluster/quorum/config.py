"""Configuration of a replica of the metadata log: its identity and its timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.configs.settings import setting
from kwire.cluster.quorum.voters import Endpoints, ReplicaKey, Voter

MAX_FETCH_WAIT_MS = 500
OBSERVER_EXPIRY_MS = 5 * 60_000
"""Time after which an observer that does not fetch is no longer described."""
CAUGHT_UP_WITHIN_MS = 60 * 60_000
"""Maximum time since a new voter's log was caught up with the leader's log end offset."""
CHECK_QUORUM_FACTOR = 1.5
"""Factor of the followers' fetch timeout for which a leader waits for fetches from a majority."""
OBSERVERS_MAX = 1000
"""Maximum observers that a leader tracks: far more than there are brokers, and little memory."""
PARKED_MAX = 1000
"""Maximum delayed fetches of a leader; a further fetch is answered at once, without records."""
EPOCH_MAX = 2**31 - 1
"""Maximum epoch in the protocol."""
EPOCHS_MISSED_MAX = 1_000_000
"""Maximum number of elections that a replica can have missed; a message with a later epoch is rejected."""
KRAFT_VERSION_MIN = 0
KRAFT_VERSION_MAX = 1
RECONFIGURABLE = 1
"""Minimum kraft.version with which voters may change (KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Quorum configuration, with Kafka's defaults; times are in ms."""

    cluster_id: str
    node_id: int
    directory_id: UUID
    listener: str
    """Name of the listener by which replicas connect to each other: the first of controller.listener.names."""
    endpoints: Endpoints = ()
    """Addresses of this replica's controller listeners; empty for a broker."""
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    """Servers to ask for an unknown leader; empty with configured voters, which are asked instead."""
    can_become_voter: bool = True
    """True for a controller."""
    auto_join: bool = setting("controller.quorum.auto.join.enable", default=False)
    """An observing controller requests to become a voter (KIP-1186)."""
    election_timeout_ms: int = setting("controller.quorum.election.timeout.ms", default=1000)
    fetch_timeout_ms: int = setting("controller.quorum.fetch.timeout.ms", default=2000)
    election_backoff_max_ms: int = setting("controller.quorum.election.backoff.max.ms", default=1000)
    request_timeout_ms: int = setting("controller.quorum.request.timeout.ms", default=2000)
    retry_backoff_ms: int = setting("controller.quorum.retry.backoff.ms", default=20)
    fetch_max_bytes: int = setting("controller.quorum.fetch.max.bytes", default=1024 * 1024)
    fetch_snapshot_max_bytes: int = setting("controller.quorum.fetch.snapshot.max.bytes", default=1024 * 1024)

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def voter(self) -> Voter:
        """Entry of this replica in a voter set."""
        return Voter(
            key=self.key,
            endpoints=self.endpoints,
            min_kraft_version=KRAFT_VERSION_MIN,
            max_kraft_version=KRAFT_VERSION_MAX,
        )

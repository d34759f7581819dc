"""What a replica of the metadata log is told when it starts: who it is, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.quorum.voters import Endpoints, ReplicaKey, Voter

MAX_FETCH_WAIT_MS = 500
OBSERVER_EXPIRY_MS = 5 * 60_000
"""An observer that has not fetched for so long is no longer described."""
CAUGHT_UP_WITHIN_MS = 60 * 60_000
"""A new voter must have been at the end of the leader's log within this time."""
CHECK_QUORUM_FACTOR = 1.5
"""How much longer than its followers' fetch timeout a leader waits for a majority of them."""
OBSERVERS_MAX = 1000
"""How many observers a leader keeps in mind: far more than brokers, and no more than a little memory."""
PARKED_MAX = 1000
"""How many fetches may wait at a leader; one more is answered at once, without records."""
EPOCH_MAX = 2**31 - 1
"""The protocol has no larger one."""
EPOCHS_MISSED_MAX = 1_000_000
"""Elections that a replica can have missed at most: whoever names a later epoch is not believed."""
KRAFT_VERSION_MIN = 0
KRAFT_VERSION_MAX = 1
RECONFIGURABLE = 1
"""The kraft.version from which voters may change (KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Times in ms, with Kafka's defaults; the names of the keys begin with controller.quorum."""

    cluster_id: str
    node_id: int
    directory_id: UUID
    listener: str
    """The listener by which replicas reach each other: the first of controller.listener.names."""
    endpoints: Endpoints = ()
    """Where this replica listens, all controller listeners; empty for a broker."""
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    """Where a leader is asked for when none is known; empty with configured voters, who are asked then."""
    can_become_voter: bool = True
    """Whether this is a controller."""
    auto_join: bool = False
    """auto.join.enable: an observing controller asks to become a voter (KIP-1186)."""
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def voter(self) -> Voter:
        """What this replica says of itself as a voter."""
        return Voter(
            key=self.key,
            endpoints=self.endpoints,
            min_kraft_version=KRAFT_VERSION_MIN,
            max_kraft_version=KRAFT_VERSION_MAX,
        )

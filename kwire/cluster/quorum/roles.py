"""Roles of a replica: one value for the current role, with the state that only this role has.

- Unattached: has no leader that it could follow.
- Prospective: requests pre-votes in the current epoch (KIP-996).
- Candidate: requests votes in a new epoch.
- Leader: was elected in this epoch.
- Follower: fetches from the leader.
- Resigned: led this epoch and announces that it no longer does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.progress import Progress
from kwire.cluster.quorum.voters import Endpoints, ReplicaKey, Voter, VoterSet

NOT_WRITTEN = -1


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Replica without a leader to follow; the leader's id may be known without its address."""

    election_deadline_ms: float
    """Time at which a voter becomes Prospective; infinite for an observer."""


@dataclass(slots=True, kw_only=True)
class Ballot:
    """Votes of one election, by voter id."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        return len(self.voters) - len(self.rejected) < self.voters.majority

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        return [key for key in self.voters.keys if key.node_id not in self.granted | self.rejected]

    def record(self, voter_id: int, *, is_granted: bool) -> None:
        """Record a voter's answer, which may change in a pre-vote; nodes outside the voter set are ignored."""
        if voter_id not in self.voters.ids:
            return
        (self.granted if is_granted else self.rejected).add(voter_id)
        (self.rejected if is_granted else self.granted).discard(voter_id)


@dataclass(slots=True, kw_only=True)
class Prospective:
    election_deadline_ms: float
    ballot: Ballot
    leader_endpoints: Endpoints
    """Endpoints of the previous leader, to follow it again if the other voters still fetch from it."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    election_deadline_ms: float
    ballot: Ballot


@dataclass(slots=True, kw_only=True)
class Follower:
    leader_endpoints: Endpoints
    fetch_deadline_ms: float
    """Time at which to stop waiting for the leader."""
    voter_update_ms: float
    """Time of the next request to update endpoints, or to join."""
    has_fetched: bool = False
    """True if this leader has answered a fetch: then no pre-vote is granted."""
    has_updated_leader: bool = False
    """True if the leader of a quorum with kraft.version 0 has this replica's endpoints and versions."""
    snapshot: SnapshotFetch | None = None
    high_watermark: int = -1
    """High watermark that the leader sent last; the replica's own follows as far as its log goes."""
    paused_until_ms: float = -math.inf
    """Time before which nothing is fetched from any address, because the last response was unusable."""


@dataclass(slots=True, kw_only=True)
class SnapshotFetch:
    """Snapshot that is being fetched in parts."""

    snapshot_id: OffsetAndEpoch
    position: int = 0
    is_complete: bool = False
    """True if all bytes are received; the driver replaces the log by it."""


@dataclass(slots=True, kw_only=True)
class Resigned:
    election_deadline_ms: float
    unacknowledged: set[int]
    """Voters that have not acknowledged the resignation."""
    unreachable: set[int] = field(default_factory=set)
    """Unacknowledged voters that were unreachable at the last try."""
    preferred_successors: list[ReplicaKey] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Leader:
    granting_voters: list[int]
    epoch_start_offset: int
    """Offset of its first record: nothing is committed before that is (Raft, figure 8)."""
    progress: Progress
    begin_quorum_ms: float
    """Time of the next announcement to voters that do not fetch."""
    check_quorum_deadline_ms: float
    has_high_watermark: bool = False
    """True if a record of this epoch is committed."""
    is_resigning: bool = False
    change: VoterChange | None = None
    """Addition or removal in progress."""
    claimed_voters: dict[int, Voter] = field(default_factory=dict)
    """Endpoints and versions that voters of a quorum with kraft.version 0 have sent."""


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """Addition or removal that is not answered yet; there is at most one."""

    token: object
    is_addition: bool
    ack_when_committed: bool = True
    key: ReplicaKey
    endpoints: Endpoints = ()
    deadline_ms: float
    offset: int = NOT_WRITTEN
    """Offset of the KRaftVoters record."""


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

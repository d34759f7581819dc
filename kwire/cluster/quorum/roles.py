"""What a replica is at a moment: one value, with what only that role remembers.

Unattached   knows no leader that it could follow
Prospective  asks whether it would be elected, in the present epoch (pre-vote, KIP-996)
Candidate    asks for votes in an epoch of its own
Leader       elected in this epoch
Follower     fetches from the leader
Resigned     led this epoch and says that it does no more
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
    """Knows no leader to follow; the leader's id may be known without where it listens."""

    election_deadline_ms: float
    """When a voter stops waiting to be called and becomes Prospective; never for an observer."""


@dataclass(slots=True, kw_only=True)
class Ballot:
    """The votes of one election, by voter id."""

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
        """A voter's answer; it may change its mind in a pre-vote, and what strangers say is not counted."""
        if voter_id not in self.voters.ids:
            return
        (self.granted if is_granted else self.rejected).add(voter_id)
        (self.rejected if is_granted else self.granted).discard(voter_id)


@dataclass(slots=True, kw_only=True)
class Prospective:
    election_deadline_ms: float
    ballot: Ballot
    leader_endpoints: Endpoints
    """Of the leader it followed until now, to go back to if the others still hear it."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    election_deadline_ms: float
    ballot: Ballot


@dataclass(slots=True, kw_only=True)
class Follower:
    leader_endpoints: Endpoints
    fetch_deadline_ms: float
    """When to stop waiting for the leader."""
    voter_update_ms: float
    """When next to tell the leader of changed endpoints, or to ask to join."""
    has_fetched: bool = False
    """Whether this leader has answered a fetch: then nobody is granted a pre-vote."""
    has_updated_leader: bool = False
    """Whether the leader of a quorum with kraft.version 0 was told of endpoints and versions."""
    snapshot: SnapshotFetch | None = None
    high_watermark: int = -1
    """What the leader said last; the replica's own follows as far as its log goes."""
    rests_until_ms: float = -math.inf
    """Until when nobody is asked for more, as what came could not be taken: the leader has other addresses, too."""


@dataclass(slots=True, kw_only=True)
class SnapshotFetch:
    """A snapshot that comes in pieces."""

    snapshot_id: OffsetAndEpoch
    position: int = 0
    is_complete: bool = False
    """All bytes are there; the driver puts it in the log's place."""


@dataclass(slots=True, kw_only=True)
class Resigned:
    election_deadline_ms: float
    unacknowledged: set[int]
    """Voters that have not confirmed to know it."""
    unreachable: set[int] = field(default_factory=set)
    """Those of them that could not be told, the last time."""
    preferred_successors: list[ReplicaKey] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Leader:
    granting_voters: list[int]
    epoch_start_offset: int
    """Where its first record stands: nothing is committed before that is (Raft, figure 8)."""
    progress: Progress
    begin_quorum_ms: float
    """When next to tell voters that do not fetch."""
    check_quorum_deadline_ms: float
    has_high_watermark: bool = False
    """Whether a record of this epoch is committed."""
    is_resigning: bool = False
    change: VoterChange | None = None
    """The addition or removal under way."""
    claimed_voters: dict[int, Voter] = field(default_factory=dict)
    """What voters of a quorum with kraft.version 0 say of themselves."""


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """An addition or removal that is not answered yet; there is one at a time."""

    token: object
    is_addition: bool
    ack_when_committed: bool = True
    key: ReplicaKey
    endpoints: Endpoints = ()
    deadline_ms: float
    offset: int = NOT_WRITTEN
    """Of the KRaftVoters record."""


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

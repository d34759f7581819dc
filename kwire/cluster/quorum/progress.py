"""Progress of each replica, tracked by the leader: high watermark, check-quorum, caught-up replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kwire.cluster.quorum.config import CAUGHT_UP_WITHIN_MS, OBSERVER_EXPIRY_MS, OBSERVERS_MAX
from kwire.cluster.quorum.voters import ReplicaKey, VoterSet

UNKNOWN = -1
NEVER = -1.0


@dataclass(slots=True, kw_only=True)
class ReplicaProgress:
    """Progress of one replica; times are on the leader's clock."""

    key: ReplicaKey
    end_offset: int = UNKNOWN
    last_fetch_ms: float = NEVER
    last_caught_up_ms: float = NEVER
    leader_end_at_last_fetch: int = 0

    def fetched(self, end_offset: int, leader_end: int, now_ms: float) -> None:
        """Record a fetch at end_offset: the replica has all earlier records, durably.

        It is caught up if it has reached the leader's log end offset, current or at its previous fetch (as for ISR).
        """
        if end_offset >= leader_end:
            self.last_caught_up_ms = max(now_ms, self.last_caught_up_ms)
        elif 0 < self.leader_end_at_last_fetch <= end_offset:
            self.last_caught_up_ms = max(self.last_fetch_ms, self.last_caught_up_ms)
        self.end_offset = end_offset
        self.last_fetch_ms = max(now_ms, self.last_fetch_ms)
        self.leader_end_at_last_fetch = leader_end


class Progress:
    """Progress of voters and observers in one leader epoch."""

    def __init__(self, leader: ReplicaKey, voters: VoterSet) -> None:
        self._leader = leader
        self._voter_set = VoterSet()
        self.voters: dict[int, ReplicaProgress] = {}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._fetched_lately: set[int] = set()
        """Ids of voters that have fetched since the check-quorum timer was last restarted."""
        self.voters_changed(voters)

    def voters_changed(self, voters: VoterSet) -> None:
        """Apply a new voter set: added replicas keep their progress, removed voters become observers."""
        known = {replica.key: replica for replica in (*self.voters.values(), *self.observers.values())}
        self._voter_set = voters
        self.voters = {}
        for key in voters.keys:
            found = next((it for it in known if voters.is_voter(it) and it.node_id == key.node_id), None)
            self.voters[key.node_id] = known.pop(found) if found is not None else ReplicaProgress(key=key)
        self.observers = known
        self._fetched_lately &= voters.ids

    def replica(self, key: ReplicaKey) -> ReplicaProgress:
        """Return the progress of a replica, as a voter or else an observer; a new one is added."""
        if self._voter_set.is_voter(key):
            replica = self.voters[key.node_id]
            replica.key = key  # kraft.version 0: the directory becomes known with the first fetch
            return replica
        return self.observers.setdefault(key, ReplicaProgress(key=key))

    def leader_flushed(self, end_offset: int) -> None:
        """Record that the leader's own log is durable up to end_offset."""
        own = self.replica(self._leader)
        assert end_offset >= own.end_offset, "a leader never truncates its log"
        own.end_offset = end_offset

    def majority_end(self) -> int:
        """Return the offset that a majority of the voters has reached; UNKNOWN if it is not known yet."""
        ends = sorted((replica.end_offset for replica in self.voters.values()), reverse=True)
        return ends[len(ends) // 2]

    # --- check-quorum (KIP-595: a leader that its voters cannot reach must resign)

    def record_fetch(self, key: ReplicaKey) -> bool:
        """Record a fetch; return True, and start over, if a majority of the voters, leader included, has fetched."""
        if self._voter_set.is_voter(key):
            self._fetched_lately.add(key.node_id)
        required = self._voter_set.majority - (1 if self._voter_set.is_voter(self._leader) else 0)
        if len(self._fetched_lately) < required:
            return False
        self._fetched_lately.clear()
        return True

    @property
    def needs_followers(self) -> bool:
        return not self._voter_set.is_only_voter(self._leader)

    # --- queries

    def is_caught_up(self, key: ReplicaKey, now_ms: float) -> bool:
        """Return True if an observer was caught up recently, so that as a voter it does not delay commits."""
        replica = self.observers.get(key)
        return (
            replica is not None
            and replica.last_caught_up_ms >= 0
            and replica.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS
        )

    def silent_voters(self, since_ms: float) -> Iterator[ReplicaKey]:
        """Yield the other voters that have not fetched since."""
        for node_id, replica in self.voters.items():
            if node_id != self._leader.node_id and (
                replica.last_fetch_ms == NEVER or replica.last_fetch_ms <= since_ms
            ):
                yield replica.key

    def successors(self) -> list[ReplicaKey]:
        """Return the other voters, the one with the longest log first."""
        others = [replica for replica in self.voters.values() if replica.key != self._leader]
        return [replica.key for replica in sorted(others, key=lambda it: (-it.end_offset, it.key.node_id))]

    def limit_observers(self, now_ms: float) -> None:
        """Limit the number of observers by removing those that have not fetched for the longest time."""
        if len(self.observers) >= OBSERVERS_MAX:
            self.remove_silent_observers(now_ms)
        while len(self.observers) >= OBSERVERS_MAX:
            others = (it for it in self.observers.values() if it.key != self._leader)
            del self.observers[min(others, key=lambda it: it.last_fetch_ms).key]

    def remove_silent_observers(self, now_ms: float) -> None:
        self.observers = {
            key: replica
            for key, replica in self.observers.items()
            if key == self._leader or now_ms - replica.last_fetch_ms < OBSERVER_EXPIRY_MS
        }

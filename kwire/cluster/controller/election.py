"""Election of a partition's leader.

A clean leader comes from the in-sync set, or from the eligible leader replicas if that set is empty. Eligible leader
replicas left the set when it was smaller than min.insync.replicas, and have every committed record (KIP-966). A current
leader that may lead stays, unless the preferred replica, the first of the list, is requested.

An unclean leader may lack committed records. If the in-sync set and the eligible leader replicas are empty, the last
known leader is elected. Otherwise any live replica is elected, if the topic allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kwire.cluster.metadata.image import NO_LEADER, PartitionImage


class Election(Enum):
    """Kind of an election."""

    PREFERRED = "give the partition back to its preferred replica"
    ONLINE = "keep the partition online"
    UNCLEAN = "keep it online even with a leader that is not in sync"


class Elected(NamedTuple):
    """Outcome of an election; NO_LEADER if no replica can lead."""

    leader: int
    is_unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Replicas that might lead a partition, for a change that is being planned."""

    partition: PartitionImage
    """Partition before the change."""
    replicas: Sequence[int]
    isr: Sequence[int]
    eligible: Sequence[int]
    can_lead: Callable[[int], bool]
    """Function that returns True if a broker is live and has the replica in an online directory."""
    is_elr_enabled: bool

    def is_clean(self, broker: int) -> bool:
        """Return True if a broker may lead and has all committed records."""
        return broker in (self.isr or self.eligible) and self.can_lead(broker)


def elect(election: Election, candidates: Candidates) -> Elected:
    """Return the leader after the change."""
    preference = [candidates.partition.leader, *candidates.replicas]
    if election is Election.PREFERRED:
        preference.insert(0, candidates.replicas[0])
    for broker in preference:
        if candidates.is_clean(broker):
            return Elected(broker)
    if _can_last_leader_return(candidates):
        return Elected(candidates.partition.last_known_elr[0], is_unclean=True)
    if election is Election.UNCLEAN:
        for broker in candidates.replicas:
            if candidates.can_lead(broker):
                return Elected(broker, is_unclean=True)
    return Elected(NO_LEADER)


def _can_last_leader_return(candidates: Candidates) -> bool:
    """Return True if the last known leader leads again, because no replica with all committed records is left."""
    last_known = candidates.partition.last_known_elr
    return (
        candidates.is_elr_enabled
        and not candidates.isr
        and not candidates.eligible
        and len(last_known) == 1
        and last_known[0] in candidates.replicas
        and candidates.can_lead(last_known[0])
    )

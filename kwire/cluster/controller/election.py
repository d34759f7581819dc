"""Who leads a partition.

A clean leader comes from the in-sync set, or, when that is empty, from the eligible leader replicas: those that left
the set when it was smaller than min.insync.replicas hold every committed record (KIP-966). Whoever leads well stays,
unless the preferred replica, the first of the list, is asked for. An unclean leader may lack committed records: the
last known leader when nobody else is left who could know them all, and any live replica where the topic allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kwire.cluster.image import NO_LEADER, PartitionImage


class Election(Enum):
    """What an election is for."""

    PREFERRED = "give the partition back to its preferred replica"
    ONLINE = "keep the partition online"
    UNCLEAN = "keep it online even by a replica that is not in sync"


class Elected(NamedTuple):
    """The outcome; NO_LEADER when nobody can lead."""

    leader: int
    is_unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Those who might lead a partition that is about to change."""

    partition: PartitionImage
    """As it is before the change."""
    replicas: Sequence[int]
    isr: Sequence[int]
    eligible: Sequence[int]
    may_lead: Callable[[int], bool]
    """Whether a broker lives and has the replica in a directory that is online."""
    has_eligible_leaders: bool

    def is_clean(self, broker: int) -> bool:
        """Whether a broker may lead and holds all that is committed."""
        return broker in (self.isr or self.eligible) and self.may_lead(broker)


def elect(election: Election, candidates: Candidates) -> Elected:
    """The leader after the change."""
    favourites = [candidates.partition.leader, *candidates.replicas]
    if election is Election.PREFERRED:
        favourites.insert(0, candidates.replicas[0])
    for broker in favourites:
        if candidates.is_clean(broker):
            return Elected(broker)
    if _may_return(candidates):
        return Elected(candidates.partition.last_known_elr[0], is_unclean=True)
    if election is Election.UNCLEAN:
        for broker in candidates.replicas:
            if candidates.may_lead(broker):
                return Elected(broker, is_unclean=True)
    return Elected(NO_LEADER)


def _may_return(candidates: Candidates) -> bool:
    """Whether the last known leader leads again: it knows most, and nobody who knows all is left."""
    last_known = candidates.partition.last_known_elr
    return (
        candidates.has_eligible_leaders
        and not candidates.isr
        and not candidates.eligible
        and len(last_known) == 1
        and last_known[0] in candidates.replicas
        and candidates.may_lead(last_known[0])
    )

"""From a wish for one partition to its PartitionChangeRecord: everything that follows from a change, in one record.

In order: a reassignment whose new replicas are in sync is completed; who left an in-sync set that is too small becomes
an eligible leader (KIP-966); a leader is elected; the leader's epoch grows if somebody stops being a replica. A field
of the record is set only where it changes something, and without any there is no record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kwire.cluster.controller.election import Candidates, Elected, Election, elect
from kwire.cluster.controller.view import ControllerView, Place, directory_of
from kwire.cluster.image import NO_LEADER, UNCHANGED_LEADER, PartitionImage
from kwire.protocol.messages.metadata_records import PartitionChangeRecord

Brokers = tuple[int, ...]

RECOVERED = 0
RECOVERING = 1
"""The leader was elected uncleanly and looks through its log (KIP-704)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a partition shall become; None leaves a part as it is."""

    isr: Brokers | None = None
    replicas: Brokers | None = None
    removing: Brokers | None = None
    adding: Brokers | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[int, UUID] = field(default_factory=dict)
    """Of single replicas."""
    election: Election = Election.ONLINE
    lost: frozenset[int] = frozenset()
    """Brokers that may have lost what they had acknowledged: they are not eligible."""


class _Assignment(NamedTuple):
    isr: Brokers
    replicas: Brokers
    removing: Brokers
    adding: Brokers


def plan_partition_change(
    view: ControllerView, place: Place, target: Target, *, may_lead: Callable[[int], bool] | None = None
) -> PartitionChangeRecord | None:
    """The record that makes a partition as wished, with all that follows; None when nothing changes.

    `may_lead` says which brokers live; by default those that are active in the image do.
    """
    old = place.partition
    is_alive = may_lead or view.is_active
    wanted = _completed(_assignment(old, target))
    eligible = _eligible(view, place, wanted, target.lost)
    candidates = Candidates(
        partition=old,
        replicas=wanted.replicas,
        isr=wanted.isr,
        eligible=eligible,
        may_lead=lambda broker: is_alive(broker) and view.has_online_replica(old, broker),
        has_eligible_leaders=view.has_eligible_leaders,
    )
    elected = elect(target.election, candidates)
    record = PartitionChangeRecord(topic_id=place.topic.topic_id, partition_id=place.partition_id)
    wanted, eligible = _with_leader(record, old, wanted, eligible, elected)
    if not view.has_eligible_leaders:
        eligible = ()
    _set_in_sync(record, old, wanted.isr, eligible, keep_last=not view.has_eligible_leaders)
    if view.has_eligible_leaders:
        _set_last_known(record, old)
    _set_assignment(view, record, old, wanted, target.directories)
    if target.leader_recovery_state not in (None, old.leader_recovery_state):
        record.leader_recovery_state = target.leader_recovery_state
    untouched = PartitionChangeRecord(topic_id=record.topic_id, partition_id=record.partition_id)
    return None if record == untouched else record


def _assignment(old: PartitionImage, target: Target) -> _Assignment:
    return _Assignment(
        isr=old.isr if target.isr is None else target.isr,
        replicas=old.replicas if target.replicas is None else target.replicas,
        removing=old.removing_replicas if target.removing is None else target.removing,
        adding=old.adding_replicas if target.adding is None else target.adding,
    )


def _completed(wanted: _Assignment) -> _Assignment:
    """The end of a reassignment, once the replicas that it adds are in sync, else what it is now.

    A move that takes away more replicas than it adds also waits for all that stay: else it could leave fewer in sync
    than there were.
    """
    if not wanted.removing and not wanted.adding:
        return wanted
    isr = tuple(broker for broker in wanted.isr if broker not in wanted.removing)
    replicas = tuple(broker for broker in wanted.replicas if broker not in wanted.removing)
    awaited = set(wanted.adding)
    if len(wanted.adding) < len(wanted.removing):
        awaited.update(replicas)
    if not isr or not replicas or not awaited <= set(isr):
        return wanted
    return _Assignment(isr=isr, replicas=replicas, removing=(), adding=())


def _eligible(view: ControllerView, place: Place, wanted: _Assignment, lost: frozenset[int]) -> Brokers:
    """Who holds all that is committed without being in sync."""
    old = place.partition
    if not view.has_eligible_leaders:
        return old.eligible_leader_replicas
    if len(wanted.isr) >= view.min_insync_replicas(place.topic):
        # The high watermark goes on without the others from here.
        return ()
    before = set(old.eligible_leader_replicas) | set(old.isr)
    eligible = (before & set(wanted.replicas)) - set(wanted.isr) - lost
    if eligible == set(old.eligible_leader_replicas):
        return old.eligible_leader_replicas
    return tuple(sorted(eligible))


def _with_leader(
    record: PartitionChangeRecord, old: PartitionImage, wanted: _Assignment, eligible: Brokers, elected: Elected
) -> tuple[_Assignment, Brokers]:
    """Write the election's outcome down; the in-sync set and the eligible leaders that are left."""
    leader = elected.leader
    if leader != old.leader:
        record.leader = leader
        if elected.is_unclean:
            # What this leader lacks is lost: nobody else may be in sync with it, or eligible.
            if old.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
            return wanted._replace(isr=(leader,)), ()
        if leader in eligible:
            return wanted._replace(isr=(leader,)), tuple(broker for broker in eligible if broker != leader)
    elif not set(old.replicas) <= set(wanted.replicas):
        # Who is no replica any more must be told apart from followers: the new epoch fences it.
        record.leader = old.leader
    return wanted, eligible


def _set_in_sync(
    record: PartitionChangeRecord, old: PartitionImage, isr: Brokers, eligible: Brokers, *, keep_last: bool
) -> None:
    if isr != old.isr and (isr or not keep_last):
        # Without eligible leaders the last one in sync stays named, for it alone may lead again.
        record.isr = list(isr)
    if eligible != old.eligible_leader_replicas:
        record.eligible_leader_replicas = list(eligible)


def _set_last_known(record: PartitionChangeRecord, old: PartitionImage) -> None:
    """Remember who led last while nobody leads."""
    if record.leader == NO_LEADER and not old.last_known_elr and old.leader != NO_LEADER:
        record.last_known_elr = [old.leader]
    elif record.leader not in (NO_LEADER, UNCHANGED_LEADER) and old.last_known_elr:
        record.last_known_elr = []


def _set_assignment(
    view: ControllerView,
    record: PartitionChangeRecord,
    old: PartitionImage,
    wanted: _Assignment,
    moved: Mapping[int, UUID],
) -> None:
    directories = tuple(_directory(view, old, moved, broker) for broker in wanted.replicas)
    if directories != old.directories:
        record.directories = list(directories)
    if wanted.replicas != old.replicas:
        record.replicas = list(wanted.replicas)
    if wanted.removing != old.removing_replicas:
        record.removing_replicas = list(wanted.removing)
    if wanted.adding != old.adding_replicas:
        record.adding_replicas = list(wanted.adding)


def _directory(view: ControllerView, old: PartitionImage, moved: Mapping[int, UUID], broker: int) -> UUID:
    if broker in moved:
        return moved[broker]
    return directory_of(old, broker) if broker in old.replicas else view.default_directory(broker)

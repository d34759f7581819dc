"""Planning of one partition's change: a PartitionChangeRecord with all consequences of the change.

The steps, in this order:

1. A reassignment whose new replicas are in sync is completed.
2. Replicas that left a too small in-sync set become eligible leader replicas (KIP-966).
3. A leader is elected.
4. The leader epoch is bumped if a replica is removed; an election bumps it anyway.

Only fields that change something are set in the record; without any there is no record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kwire.cluster.controller.election import Candidates, Elected, Election, elect
from kwire.cluster.controller.view import ControllerView, Place, directory_of
from kwire.cluster.metadata.image import NO_LEADER, UNCHANGED_LEADER, PartitionImage
from kwire.protocol.messages.metadata_records import PartitionChangeRecord

Brokers = tuple[int, ...]

RECOVERED = 0
RECOVERING = 1
"""Leader recovery state of a leader that was elected uncleanly and is recovering its log (KIP-704)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Requested state of a partition; None leaves a part unchanged."""

    isr: Brokers | None = None
    replicas: Brokers | None = None
    removing: Brokers | None = None
    adding: Brokers | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[int, UUID] = field(default_factory=dict)
    """Directory ids of single replicas."""
    election: Election = Election.ONLINE
    lost: frozenset[int] = frozenset()
    """Brokers that may have lost acknowledged records: they are not eligible."""


class _Assignment(NamedTuple):
    isr: Brokers
    replicas: Brokers
    removing: Brokers
    adding: Brokers


def plan_partition_change(
    view: ControllerView, place: Place, target: Target, *, can_lead: Callable[[int], bool] | None = None
) -> PartitionChangeRecord | None:
    """Return the record that changes a partition to the target, with all consequences; None if nothing changes.

    `can_lead` returns True for live brokers; by default those are the active brokers of the image.
    """
    old = place.partition
    is_alive = can_lead or view.is_active
    assignment = _completed(_assignment(old, target))
    eligible = _eligible(view, place, assignment, target.lost)
    candidates = Candidates(
        partition=old,
        replicas=assignment.replicas,
        isr=assignment.isr,
        eligible=eligible,
        can_lead=lambda broker: is_alive(broker) and view.has_online_replica(old, broker),
        is_elr_enabled=view.is_elr_enabled,
    )
    elected = elect(target.election, candidates)
    record = PartitionChangeRecord(topic_id=place.topic.topic_id, partition_id=place.partition_id)
    assignment, eligible = _with_leader(record, old, assignment, eligible, elected)
    if not view.is_elr_enabled:
        eligible = ()
    _set_in_sync(record, old, assignment.isr, eligible, keep_last=not view.is_elr_enabled)
    if view.is_elr_enabled:
        _set_last_known(record, old)
    _set_assignment(view, record, old, assignment, target.directories)
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


def _completed(assignment: _Assignment) -> _Assignment:
    """Return the final assignment of a reassignment whose added replicas are in sync, else the current one.

    A reassignment that removes more replicas than it adds also waits for all that stay. Otherwise it could leave fewer
    replicas in sync than before.
    """
    if not assignment.removing and not assignment.adding:
        return assignment
    isr = tuple(broker for broker in assignment.isr if broker not in assignment.removing)
    replicas = tuple(broker for broker in assignment.replicas if broker not in assignment.removing)
    awaited = set(assignment.adding)
    if len(assignment.adding) < len(assignment.removing):
        awaited.update(replicas)
    if not isr or not replicas or not awaited <= set(isr):
        return assignment
    return _Assignment(isr=isr, replicas=replicas, removing=(), adding=())


def _eligible(view: ControllerView, place: Place, assignment: _Assignment, lost: frozenset[int]) -> Brokers:
    """Return the replicas outside the in-sync set that have all committed records."""
    old = place.partition
    if not view.is_elr_enabled:
        return old.eligible_leader_replicas
    if len(assignment.isr) >= view.min_insync_replicas(place.topic):
        # From now on the high watermark advances without the replicas outside the in-sync set.
        return ()
    before = set(old.eligible_leader_replicas) | set(old.isr)
    eligible = (before & set(assignment.replicas)) - set(assignment.isr) - lost
    if eligible == set(old.eligible_leader_replicas):
        return old.eligible_leader_replicas
    return tuple(sorted(eligible))


def _with_leader(
    record: PartitionChangeRecord, old: PartitionImage, assignment: _Assignment, eligible: Brokers, elected: Elected
) -> tuple[_Assignment, Brokers]:
    """Store the election's outcome in the record; return the remaining in-sync set and eligible leader replicas."""
    leader = elected.leader
    if leader != old.leader:
        record.leader = leader
        if elected.is_unclean:
            # Records that this leader lacks are lost: no other replica may be in sync with it, or eligible.
            if old.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
            return assignment._replace(isr=(leader,)), ()
        if leader in eligible:
            return assignment._replace(isr=(leader,)), tuple(broker for broker in eligible if broker != leader)
    elif not set(old.replicas) <= set(assignment.replicas):
        # The new leader epoch fences the removed replica, so that it no longer counts as a follower.
        record.leader = old.leader
    return assignment, eligible


def _set_in_sync(
    record: PartitionChangeRecord, old: PartitionImage, isr: Brokers, eligible: Brokers, *, keep_last: bool
) -> None:
    if isr != old.isr and (isr or not keep_last):
        # Without ELR the last in-sync replica stays in the set: only it may lead again.
        record.isr = list(isr)
    if eligible != old.eligible_leader_replicas:
        record.eligible_leader_replicas = list(eligible)


def _set_last_known(record: PartitionChangeRecord, old: PartitionImage) -> None:
    """Store the last leader while the partition has none."""
    if record.leader == NO_LEADER and not old.last_known_elr and old.leader != NO_LEADER:
        record.last_known_elr = [old.leader]
    elif record.leader not in (NO_LEADER, UNCHANGED_LEADER) and old.last_known_elr:
        record.last_known_elr = []


def _set_assignment(
    view: ControllerView,
    record: PartitionChangeRecord,
    old: PartitionImage,
    assignment: _Assignment,
    moved: Mapping[int, UUID],
) -> None:
    directories = tuple(_directory(view, old, moved, broker) for broker in assignment.replicas)
    if directories != old.directories:
        record.directories = list(directories)
    if assignment.replicas != old.replicas:
        record.replicas = list(assignment.replicas)
    if assignment.removing != old.removing_replicas:
        record.removing_replicas = list(assignment.removing)
    if assignment.adding != old.adding_replicas:
        record.adding_replicas = list(assignment.adding)


def _directory(view: ControllerView, old: PartitionImage, moved: Mapping[int, UUID], broker: int) -> UUID:
    if broker in moved:
        return moved[broker]
    return directory_of(old, broker) if broker in old.replicas else view.default_directory(broker)

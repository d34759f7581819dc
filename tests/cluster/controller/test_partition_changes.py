"""Effects of one partition change: leaders, eligible leaders, epochs, directories, completed reassignments."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kwire.cluster.controller.election import Election
from kwire.cluster.controller.plans.partition_changes import RECOVERED, RECOVERING, Target, plan_partition_change
from kwire.cluster.directory_ids import LOST, UNASSIGNED
from tests.cluster.controller.support import directory, one_partition, partition_of, place_of, set_fields

PREFERRED, ONLINE, UNCLEAN = Election.PREFERRED, Election.ONLINE, Election.UNCLEAN


def changed(target: Target, replicas: list[int], **fields: Any) -> dict[str, Any] | None:
    view = one_partition(replicas, **fields)
    record = plan_partition_change(view, place_of(view), target)
    return None if record is None else set_fields(record)


@pytest.mark.parametrize(
    ("election", "fields", "expected"),
    [
        # The leader is alive and in sync: no change.
        (ONLINE, {}, None),
        (UNCLEAN, {}, None),
        (PREFERRED, {}, None),
        # A preferred election: it needs the preferred replica in sync.
        (PREFERRED, {"leader": 2}, {"leader": 1}),
        (PREFERRED, {"leader": 2, "isr": [2, 3]}, None),
        (ONLINE, {"leader": 2}, None),
        # Without a leader, the first live in-sync replica leads.
        (ONLINE, {"leader": -1}, {"leader": 1}),
        (ONLINE, {"leader": -1, "isr": [3]}, {"leader": 3}),
        (PREFERRED, {"leader": -1, "isr": [2, 3]}, {"leader": 2}),
        (ONLINE, {"fenced": (1,)}, {"leader": 2}),
        (ONLINE, {"leader": -1, "isr": [3], "fenced": (3,)}, None),
        (ONLINE, {"leader": 3, "isr": [3], "fenced": (3,)}, {"leader": -1}),
        # No in-sync replica is alive, and the topic allows an unclean leader.
        (
            UNCLEAN,
            {"leader": 3, "isr": [3], "fenced": (3,)},
            {"leader": 1, "isr": [1], "leader_recovery_state": RECOVERING},
        ),
        (
            UNCLEAN,
            {"leader": -1, "isr": [3], "fenced": (1, 3), "leader_recovery_state": RECOVERING},
            {"leader": 2, "isr": [2]},
        ),
        (UNCLEAN, {"leader": -1, "isr": [3], "fenced": (1, 2, 3)}, None),
        (PREFERRED, {"leader": -1, "isr": [3], "fenced": (3,)}, None),
        # A replica in a failed directory cannot lead.
        (ONLINE, {"directories_of": [LOST, directory(2), directory(3)]}, {"leader": 2}),
        (ONLINE, {"directories_of": [directory(1, 9), directory(2), directory(3)]}, {"leader": 2}),
        (ONLINE, {"directories_of": [UNASSIGNED, directory(2), directory(3)]}, None),
    ],
)
def test_each_election_type_chooses_the_leader(
    election: Election, fields: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    fields = dict(fields)
    moved = fields.pop("directories_of", None)
    view = one_partition([1, 2, 3], **fields)
    place = place_of(view)
    if moved is not None:
        place = place._replace(partition=dataclasses.replace(place.partition, directories=tuple(moved)))
    record = plan_partition_change(view, place, Target(election=election))
    assert (None if record is None else set_fields(record)) == expected


ELR = {"elr": True, "min_insync": 3}


@pytest.mark.parametrize(
    ("target", "fields", "expected"),
    [
        # Below min.insync.replicas, a replica that leaves the in-sync set becomes eligible.
        (Target(isr=(1, 2)), {}, {"isr": [1, 2], "eligible_leader_replicas": [3]}),
        (
            Target(isr=(1,)),
            {"isr": [1, 2], "eligible_leader_replicas": [3]},
            {"isr": [1], "eligible_leader_replicas": [2, 3]},
        ),
        # At min.insync.replicas, no replica is eligible.
        (
            Target(isr=(1, 2, 3)),
            {"isr": [1, 2], "eligible_leader_replicas": [3]},
            {"isr": [1, 2, 3], "eligible_leader_replicas": []},
        ),
        (Target(isr=(1, 2)), {"min_insync": 2}, {"isr": [1, 2]}),
        # A replica that may have lost records is not eligible.
        (Target(isr=(1,), lost=frozenset({2})), {}, {"isr": [1], "eligible_leader_replicas": [3]}),
        (
            Target(lost=frozenset({3})),
            {"isr": [1, 2], "eligible_leader_replicas": [3]},
            {"eligible_leader_replicas": []},
        ),
        # The in-sync set may become empty; the last leader is stored.
        (
            Target(isr=()),
            {"fenced": (1, 2, 3)},
            {"isr": [], "eligible_leader_replicas": [1, 2, 3], "leader": -1, "last_known_elr": [1]},
        ),
        # An eligible replica becomes leader.
        (
            Target(),
            {"isr": [], "eligible_leader_replicas": [2, 3], "leader": -1, "last_known_elr": [1], "fenced": (1, 2)},
            {"isr": [3], "eligible_leader_replicas": [2], "leader": 3, "last_known_elr": []},
        ),
        (
            Target(isr=()),
            {"isr": [1], "eligible_leader_replicas": [2], "fenced": (1,)},
            {"isr": [2], "eligible_leader_replicas": [1], "leader": 2},
        ),
        # No eligible replica leads while the in-sync set is not empty.
        (
            Target(),
            {"isr": [1], "eligible_leader_replicas": [2], "fenced": (1,)},
            {"leader": -1, "last_known_elr": [1]},
        ),
        # Without eligible replicas, the last known leader is elected when it returns: an unclean election.
        (
            Target(),
            {"isr": [], "leader": -1, "last_known_elr": [1]},
            {"isr": [1], "leader": 1, "last_known_elr": [], "leader_recovery_state": RECOVERING},
        ),
        (Target(), {"isr": [], "leader": -1, "last_known_elr": [1], "fenced": (1,)}, None),
        (Target(), {"isr": [], "leader": -1, "last_known_elr": [1, 2]}, None),
        (
            Target(),
            {"isr": [], "eligible_leader_replicas": [2], "leader": -1, "last_known_elr": [1], "fenced": (2,)},
            None,
        ),
        # After an unclean election, no other replica is eligible.
        (
            Target(election=Election.UNCLEAN),
            {"isr": [], "eligible_leader_replicas": [2], "leader": -1, "last_known_elr": [2], "fenced": (2,)},
            {
                "isr": [1],
                "eligible_leader_replicas": [],
                "leader": 1,
                "last_known_elr": [],
                "leader_recovery_state": RECOVERING,
            },
        ),
    ],
)
def test_eligible_leader_replicas_change_with_the_isr(
    target: Target, fields: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert changed(target, [1, 2, 3], **(ELR | fields)) == expected


def test_without_the_feature_the_last_in_sync_replica_stays_in_the_isr() -> None:
    found = changed(Target(isr=()), [1, 2], isr=[1], fenced=(1,), min_insync=2)
    assert found == {"leader": -1}


def test_without_the_feature_no_replica_is_eligible() -> None:
    found = changed(Target(isr=(1,)), [1, 2], eligible_leader_replicas=[3], min_insync=2)
    assert found == {"isr": [1], "eligible_leader_replicas": []}


MOVING = {"removing_replicas": [2], "adding_replicas": [4]}


@pytest.mark.parametrize(
    ("isr", "fields", "expected"),
    [
        # The new replica is in sync: the move completes, and a new leader epoch excludes the removed replica.
        (
            (1, 2, 3, 4),
            MOVING,
            {"replicas": [1, 3, 4], "isr": [1, 3, 4], "leader": 1, "removing_replicas": [], "adding_replicas": []},
        ),
        # As many replicas are added as removed, so the others need not be in sync.
        (
            (1, 4),
            MOVING,
            {"replicas": [1, 3, 4], "isr": [1, 4], "leader": 1, "removing_replicas": [], "adding_replicas": []},
        ),
        # The added replica is not in sync yet.
        ((1, 2, 3), MOVING, {"isr": [1, 2, 3]}),
        # More replicas are removed than added: the remaining ones must be in sync.
        ((1, 2, 3), {"removing_replicas": [2, 3]}, {"isr": [1, 2, 3]}),
        (
            (1, 2, 4),
            {"removing_replicas": [2, 3]},
            {"replicas": [1, 4], "isr": [1, 4], "leader": 1, "removing_replicas": []},
        ),
        # The leader's replica is removed: another leads.
        (
            (1, 2, 3, 4),
            {"removing_replicas": [1], "adding_replicas": [4]},
            {"replicas": [2, 3, 4], "isr": [2, 3, 4], "leader": 2, "removing_replicas": [], "adding_replicas": []},
        ),
        # No remaining replica is in sync.
        ((2,), {"removing_replicas": [2], "leader": 2}, {"isr": [2]}),
    ],
)
def test_a_reassignment_ends_by_itself(isr: tuple[int, ...], fields: dict[str, Any], expected: dict[str, Any]) -> None:
    fields = {"isr": [1]} | fields
    if fields.get("leader") == 2:
        fields["isr"] = [1, 2]
    found = changed(Target(isr=isr), [1, 2, 3, 4], **fields)
    assert found is not None
    directories = found.pop("directories", None)
    assert found == expected
    if "replicas" in expected:
        assert directories == [directory(broker) for broker in expected["replicas"]]


def test_a_new_replica_is_in_its_brokers_only_directory() -> None:
    view = one_partition([1, 2])
    record = plan_partition_change(view, place_of(view), Target(replicas=(1, 2, 3), adding=(3,)))
    assert record is not None
    assert set_fields(record) == {
        "replicas": [1, 2, 3],
        "adding_replicas": [3],
        "directories": [directory(1), directory(2), directory(3)],
    }


def test_a_new_replica_is_in_none_yet_where_its_broker_may_choose() -> None:
    view = one_partition([1, 2], directories=2)
    record = plan_partition_change(view, place_of(view), Target(replicas=(1, 3), adding=(3,), removing=(2,)))
    assert record is not None
    assert record.directories == [directory(1), UNASSIGNED]


def test_the_leaders_epoch_grows_with_leaders_only() -> None:
    view = one_partition([1, 2, 3])
    record = plan_partition_change(view, place_of(view), Target(isr=(1, 2)))
    after = partition_of(view.after([record]))
    assert (after.leader_epoch, after.partition_epoch) == (5, 11)
    record = plan_partition_change(view, place_of(view), Target(isr=(2, 3)))
    after = partition_of(view.after([record]))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 6, 11)


def test_the_leader_reports_its_recovery() -> None:
    found = changed(Target(leader_recovery_state=RECOVERED), [1, 2], leader_recovery_state=RECOVERING)
    assert found == {"leader_recovery_state": RECOVERED}


def test_a_broker_that_is_not_registered_has_no_replica_online() -> None:
    view = one_partition([1, 2], brokers=[1])
    partition = partition_of(view)
    assert [view.has_online_replica(partition, broker) for broker in (1, 2, 3)] == [True, False, False]

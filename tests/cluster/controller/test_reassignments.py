"""Reassignments: begun, changed, completed, cancelled and listed."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.chunks import at_once
from kwire.cluster.controller.plans.reassignments import Reassignments, list_reassignments
from kwire.cluster.controller.view import ControllerView
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.cluster.controller.support import (
    TOPIC_ID,
    broker_record,
    directory,
    one_partition,
    partition_of,
    partition_record,
    set_fields,
    view_of,
)


def moved(
    view: ControllerView, *wishes: list[int] | None, topic: str = "t", index: int = 0, may_change_factor: bool = True
) -> tuple[list[Any], list[ReassignablePartitionResponse]]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas) for replicas in wishes],
            )
        ],
    )
    moves = Reassignments(request, view)
    made, response = moves.records, at_once(moves.answer())
    assert response.allow_replication_factor_change is may_change_factor
    return made, response.responses[0].partitions


def change(view: ControllerView, requested: list[int] | None) -> dict[str, Any] | None:
    """Return the fields that one reassignment request changes, without directories."""
    made, (answer,) = moved(view, requested)
    assert (answer.error_code, answer.error_message) == (0, None)
    if not made:
        return None
    return {name: value for name, value in set_fields(made[0]).items() if name != "directories"}


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ([1, 2, 3], None),
        # A change of the order takes effect at once.
        ([2, 1, 3], {"replicas": [2, 1, 3]}),
        # A removal without an addition takes effect at once.
        ([1, 2], {"replicas": [1, 2], "isr": [1, 2], "leader": 1}),
        ([3], {"replicas": [3], "isr": [3], "leader": 3}),
        # An added replica must first become in sync.
        ([1, 2, 3, 4], {"replicas": [1, 2, 3, 4], "adding_replicas": [4]}),
        ([1, 2, 4], {"replicas": [1, 2, 4, 3], "adding_replicas": [4], "removing_replicas": [3]}),
        ([5, 4], {"replicas": [5, 4, 1, 2, 3], "adding_replicas": [4, 5], "removing_replicas": [1, 2, 3]}),
    ],
)
def test_a_reassignment_starts(requested: list[int], expected: dict[str, Any] | None) -> None:
    assert change(one_partition([1, 2, 3]), requested) == expected


def test_new_replicas_have_directories() -> None:
    made, _ = moved(one_partition([1, 2]), [3, 1])
    assert made[0].directories == [directory(3), directory(1), directory(2)]


def under_way(**fields: Any) -> ControllerView:
    """Return a view of a reassignment in progress from (1, 2, 3) to (1, 2, 4)."""
    fields = {"isr": [1, 2, 3], "removing_replicas": [3], "adding_replicas": [4]} | fields
    return one_partition([1, 2, 4, 3], **fields)


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ([1, 2, 4], None),
        # Another target: the replica being added is removed with the others.
        (
            [1, 2, 5],
            {"replicas": [1, 2, 5, 3, 4], "adding_replicas": [5], "removing_replicas": [3, 4]},
        ),
        # A target that includes the replica being removed keeps it.
        ([1, 2, 3, 4], {"replicas": [1, 2, 3, 4], "removing_replicas": []}),
        # A return to the original replicas completes at once.
        (
            [1, 2, 3],
            {"replicas": [1, 2, 3], "leader": 1, "adding_replicas": [], "removing_replicas": []},
        ),
    ],
)
def test_a_reassignment_can_be_changed(requested: list[int], expected: dict[str, Any] | None) -> None:
    assert change(under_way(), requested) == expected


def test_a_reassignment_is_cancelled() -> None:
    assert change(under_way(), None) == {
        "replicas": [1, 2, 3],
        "leader": 1,
        "adding_replicas": [],
        "removing_replicas": [],
    }
    assert change(under_way(isr=[4, 1], leader=4), None) == {
        "replicas": [1, 2, 3],
        "isr": [1],
        "leader": 1,
        "adding_replicas": [],
        "removing_replicas": [],
    }


def test_a_cancellation_that_would_lose_records() -> None:
    made, (answer,) = moved(under_way(isr=[4], leader=4), None)
    assert (made, answer.error_code) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    found = change(under_way(isr=[4], leader=4, unclean=True), None)
    assert found is not None
    assert (found["isr"], found["leader"]) == ([1], 1)


def test_a_cancellation_with_eligible_leaders() -> None:
    fields = {"elr": True, "min_insync": 2, "unclean": True}
    found = change(under_way(isr=[4], leader=4, eligible_leader_replicas=[2], **fields), None)
    assert found is not None
    assert (found["isr"], found["leader"], found["eligible_leader_replicas"]) == ([2], 2, [])
    assert "leader_recovery_state" not in found
    found = change(under_way(isr=[4], leader=4, **fields), None)
    assert found is not None
    assert (found["isr"], found["leader"], found["leader_recovery_state"]) == ([1], 1, 1)
    fields["unclean"] = False
    found = change(under_way(isr=[], leader=-1, eligible_leader_replicas=[2], fenced=(2,), **fields), None)
    assert found == {"replicas": [1, 2, 3], "leader": -1, "adding_replicas": [], "removing_replicas": []}


def test_a_cancellation_when_only_an_added_replica_may_have_all_records() -> None:
    """Broker 4 led last and is fenced. Without it no replica could lead; outside the replica set it must not lead."""
    no_isr = {"isr": [], "leader": -1, "last_known_elr": [4], "elr": True, "min_insync": 2}
    made, (answer,) = moved(under_way(**no_isr, fenced=(4,)), None)
    assert (made, answer.error_code) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    made, (answer,) = moved(under_way(**no_isr), None)
    assert (made, answer.error_code) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    found = change(under_way(**no_isr, unclean=True), None)
    assert found is not None
    assert (found["isr"], found["leader"], found["leader_recovery_state"]) == ([1], 1, 1)


@pytest.mark.parametrize(
    ("requested", "fields", "code"),
    [
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1], {"topic": "missing"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 2], {"may_change_factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([1, 2, 3, 4], {"may_change_factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_moves_that_are_rejected(requested: list[int] | None, fields: dict[str, Any], code: ErrorCode) -> None:
    made, (answer,) = moved(one_partition([1, 2, 3]), requested, **fields)
    assert (made, answer.error_code) == ([], code)


def test_the_replication_factor_of_a_reassignment_is_that_of_its_target() -> None:
    made, (answer,) = moved(under_way(), [1, 2, 5], may_change_factor=False)
    assert (len(made), answer.error_code) == (1, 0)
    made, (answer,) = moved(under_way(), [1, 2, 3, 4], may_change_factor=False)
    assert (made, answer.error_code) == ([], ErrorCode.INVALID_REPLICATION_FACTOR)


def test_the_last_of_two_reassignments_of_a_partition_applies() -> None:
    made, answers = moved(one_partition([1, 2, 3]), [1, 2, 4], [1, 2, 5])
    assert [answer.error_code for answer in answers] == [0, 0]
    after = partition_of(one_partition([1, 2, 3]).after(made))
    assert (after.adding_replicas, after.removing_replicas) == ((5,), (3, 4))


def test_a_single_replica_that_restarts_is_eligible_while_it_moves() -> None:
    """A single replica stays in sync on a fenced broker. With a second one, a fenced broker leaves the in-sync set."""
    view = one_partition([5], elr=True, fenced=(5,), leader=-1)
    made, (response,) = moved(view, [5])
    assert (made, response.error_code) == ([], ErrorCode.NONE)
    made, (response,) = moved(view, [2, 3])
    assert response.error_code == ErrorCode.NONE
    after = partition_of(view.after(made))
    assert (after.replicas, after.isr, after.leader) == ((2, 3, 5), (), -1)
    assert after.eligible_leader_replicas == (5,)


def test_moves_under_way_are_listed() -> None:
    batch: list[Any] = [broker_record(broker) for broker in (1, 2, 3)]
    batch += [
        records.TopicRecord(name="t", topic_id=TOPIC_ID),
        partition_record([1, 2], 0),
        partition_record([1, 3, 2], 1, adding_replicas=[3], removing_replicas=[2]),
        partition_record([1, 2, 3], 2, adding_replicas=[3]),
    ]
    image = view_of(batch).image

    def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> list[tuple[str, list[int]]]:
        response = at_once(list_reassignments(image, ListPartitionReassignmentsRequest(topics=topics)))
        assert (response.error_code, response.error_message) == (0, None)
        return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]

    def wanted(name: str, *indexes: int) -> list[ListPartitionReassignmentsTopics]:
        return [ListPartitionReassignmentsTopics(name=name, partition_indexes=list(indexes))]

    assert listed(None) == [("t", [1, 2])]
    assert listed(wanted("t", 0, 1, 1, 9, -1)) == [("t", [1])]
    assert listed(wanted("t", 0)) == listed(wanted("missing", 0)) == []
    response = at_once(list_reassignments(image, ListPartitionReassignmentsRequest(topics=None)))
    first = response.topics[0].partitions[0]
    assert (first.replicas, first.adding_replicas, first.removing_replicas) == ([1, 3, 2], [3], [2])


def test_a_cancellation_that_would_leave_no_replica_is_rejected() -> None:
    view = one_partition([4, 5], adding_replicas=[4, 5])
    made, (answer,) = moved(view, None)
    assert (made, answer.error_code) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert answer.error_message == "All replicas are being added."

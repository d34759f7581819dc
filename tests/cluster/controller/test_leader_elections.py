"""ElectLeaders, and the elections that the controller starts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import at_once
from kwire.cluster.controller.plans.leader_elections import (
    Elections,
    plan_preferred_leaders,
    plan_unclean_leaders,
)
from kwire.cluster.controller.view import ControllerView
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopicPartitions
from tests.cluster.controller.support import (
    TOPIC_ID,
    broker_record,
    made_by,
    partition_record,
    topic_config,
    view_of,
)
from tests.support.loop_steps import LINES_MAX, longest_step_of, needs_lines

PREFERRED, UNCLEAN = 0, 1


def four_partitions(*, unclean: bool = False) -> ControllerView:
    """Return a view of four partitions; broker 3 is fenced.

    The preferred replica leads partition 0. Another replica leads partition 1; for partition 2, the preferred replica
    is not in sync. Partition 3 has no leader.
    """
    batch: list[Any] = [broker_record(broker, fenced=broker == 3) for broker in (1, 2, 3)]
    batch += [
        records.TopicRecord(name="t", topic_id=TOPIC_ID),
        partition_record([1, 2], 0),
        partition_record([1, 2], 1, leader=2),
        partition_record([1, 2], 2, leader=2, isr=[2]),
        partition_record([3, 1], 3, leader=-1, isr=[3]),
        topic_config("t", "unclean.leader.election.enable", str(unclean).lower()),
    ]
    return view_of(batch)


def planned(view: ControllerView, request: ElectLeadersRequest) -> tuple[list[Any], ElectLeadersResponse]:
    elections = Elections(request, view)
    response = at_once(elections.answer())
    return elections.records, response


def elected(kind: int, wanted: dict[str, list[int]] | None) -> tuple[dict[int, int], dict[str, list[tuple[int, int]]]]:
    """Return the new leaders by partition, and the answers."""
    asked = None
    if wanted is not None:
        asked = [ElectLeadersTopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted.items()]
    made, response = planned(four_partitions(), ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    answers = {
        result.topic: [(each.partition_id, each.error_code) for each in result.partition_result]
        for result in response.replica_election_results
    }
    return {each.partition_id: each.leader for each in made}, answers


NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
NO_PREFERRED, NO_ELIGIBLE = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("kind", "wanted", "leaders", "answers"),
    [
        (
            PREFERRED,
            {"t": [0, 1, 2, 3, 4, -1], "u": [0]},
            {1: 1},
            {
                "t": [(0, NOT_NEEDED), (1, 0), (2, NO_PREFERRED), (3, NO_PREFERRED), (4, UNKNOWN), (-1, UNKNOWN)],
                "u": [(0, UNKNOWN)],
            },
        ),
        (UNCLEAN, {"t": [0, 1, 2, 3]}, {3: 1}, {"t": [(0, NOT_NEEDED), (1, NOT_NEEDED), (2, NOT_NEEDED), (3, 0)]}),
        (PREFERRED, None, {1: 1}, {"t": [(1, 0), (2, NO_PREFERRED), (3, NO_PREFERRED)]}),
        (UNCLEAN, None, {3: 1}, {"t": [(3, 0)]}),
        (PREFERRED, {"t": [1, 1]}, {1: 1}, {"t": [(1, 0), (1, NOT_NEEDED)]}),
        (PREFERRED, {}, {}, {}),
    ],
)
def test_leaders_are_elected_when_asked_for(
    kind: int, wanted: dict[str, list[int]] | None, leaders: dict[int, int], answers: dict[str, list[tuple[int, int]]]
) -> None:
    assert elected(kind, wanted) == (leaders, answers)


def test_an_unavailable_preferred_leader_has_kafkas_error_message() -> None:
    """Kafka's tools, and tests of clients, search for these messages."""
    asked = [ElectLeadersTopicPartitions(topic="t", partitions=[2])]
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=asked)
    _, response = planned(four_partitions(), request)
    answer = response.replica_election_results[0].partition_result[0]
    assert answer.error_message == "The preferred leader was not available."


def test_an_election_without_live_replicas_is_rejected() -> None:
    batch: list[Any] = [broker_record(1, fenced=True), records.TopicRecord(name="t", topic_id=TOPIC_ID)]
    view = view_of([*batch, partition_record([1], leader=-1)])
    asked = [ElectLeadersTopicPartitions(topic="t", partitions=[0])]
    made, response = planned(view, ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=asked))
    assert made == []
    answer = response.replica_election_results[0].partition_result[0]
    assert answer.error_code == NO_ELIGIBLE
    assert answer.error_message == "Eligible topic partition leaders are not available."


def test_elections_that_are_rejected() -> None:
    with pytest.raises(KafkaError) as rejected:
        elected(2, None)
    assert rejected.value.code is ErrorCode.INVALID_REQUEST


def test_leadership_goes_back_to_preferred_replicas() -> None:
    view = four_partitions()
    made = made_by(view, plan_preferred_leaders)
    assert [(each.partition_id, each.leader) for each in made] == [(1, 1)]
    assert made_by(view.after(made), plan_preferred_leaders) == []
    assert made_by(view, plan_preferred_leaders, limit=0) == []


def test_leaderless_partitions_get_a_leader_where_any_will_do() -> None:
    assert made_by(four_partitions(), plan_unclean_leaders) == []
    made = made_by(four_partitions(unclean=True), plan_unclean_leaders)
    assert [(each.partition_id, each.leader, each.isr) for each in made] == [(3, 1, [1])]


@needs_lines
def test_leaderless_partitions_of_many_topics_are_looked_at_in_short_steps() -> None:
    batch: list[Any] = [broker_record(1, fenced=True)]
    for number in range(3000):
        topic_id = UUID(int=5000 + number)
        batch.append(records.TopicRecord(name=f"t{number}", topic_id=topic_id))
        batch.append(partition_record([1], topic_id=topic_id, leader=-1))
    assert longest_step_of(plan_unclean_leaders(view_of(batch))) < LINES_MAX

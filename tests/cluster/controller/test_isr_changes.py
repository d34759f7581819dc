"""AlterPartition: valid and invalid requests of a leader, and their responses."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import at_once
from kwire.cluster.controller.plans.broker_changes import plan_controlled_shutdown
from kwire.cluster.controller.plans.isr_changes import IsrChanges
from kwire.cluster.controller.view import ControllerView
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
)
from tests.cluster.controller.support import TOPIC_ID, epoch, made_by, one_partition, partition_of, set_fields

RECOVERING = 1


def requested(isr: list[int], index: int = 0, **fields: Any) -> AlterPartitionRequestPartitionData:
    made = AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=5,
        partition_epoch=10,
        new_isr=isr,
        new_isr_with_epochs=[AlterPartitionBrokerState(broker_id=broker, broker_epoch=epoch(broker)) for broker in isr],
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def request(
    *wishes: AlterPartitionRequestPartitionData, leader: int = 1, topic: UUID = TOPIC_ID
) -> AlterPartitionRequest:
    return AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=epoch(leader),
        topics=[AlterPartitionRequestTopicData(topic_id=topic, partitions=list(wishes))],
    )


def altered(
    view: ControllerView, asked: AlterPartitionRequest, version: int = 3
) -> tuple[list[Any], list[AlterPartitionResponsePartitionData]]:
    plan = IsrChanges(asked, view, version=version)
    response = at_once(plan.answer())
    assert response.error_code == 0
    return plan.records, response.topics[0].partitions


def shown(answer: AlterPartitionResponsePartitionData) -> tuple[int, int, int, list[int], int]:
    return answer.error_code, answer.leader_id, answer.leader_epoch, answer.isr, answer.partition_epoch


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_shrinks_and_grows_its_in_sync_set(version: int) -> None:
    view = one_partition([1, 2, 3])
    made, (answer,) = altered(view, request(requested([1, 3])), version)
    assert [set_fields(each) for each in made] == [{"isr": [1, 3]}]
    assert shown(answer) == (0, 1, 5, [1, 3], 11)
    made, (answer,) = altered(view.after(made), request(requested([1, 2, 3], partition_epoch=11)), version)
    assert shown(answer) == (0, 1, 5, [1, 2, 3], 12)


def test_an_unchanged_isr_returns_the_current_state() -> None:
    made, (answer,) = altered(one_partition([1, 2, 3]), request(requested([1, 2, 3])))
    assert (made, shown(answer)) == ([], (0, 1, 5, [1, 2, 3], 10))


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (requested([1, 2], index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (requested([1, 2], index=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (requested([1, 2], leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (requested([1, 2], partition_epoch=11), ErrorCode.NOT_CONTROLLER),
        (requested([1, 2], partition_epoch=11, leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (requested([1, 2], leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (requested([1, 2], partition_epoch=9), ErrorCode.INVALID_UPDATE_VERSION),
        (requested([]), ErrorCode.INVALID_REQUEST),
        (requested([2, 3]), ErrorCode.INVALID_REQUEST),
        (requested([1, 4]), ErrorCode.INVALID_REQUEST),
        (requested([1, 2, 2]), ErrorCode.INVALID_REQUEST),
        (requested([1], leader_recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (requested([1], leader_recovery_state=7), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_alter_partition_requests_are_rejected(
    wanted: AlterPartitionRequestPartitionData, code: ErrorCode
) -> None:
    made, (answer,) = altered(one_partition([1, 2, 3]), request(wanted))
    assert (made, answer.error_code) == ([], code)


def test_alter_partition_from_a_non_leader_is_rejected() -> None:
    view = one_partition([1, 2, 3])
    assert altered(view, request(requested([1, 2]), leader=2))[1][0].error_code == ErrorCode.INVALID_REQUEST
    assert altered(view, request(requested([1, 2]), topic=UUID(int=1)))[1][0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = request(requested([1, 2]))
    for broker, broker_epoch in ((1, epoch(1) - 1), (9, 0)):
        asked.broker_id, asked.broker_epoch = broker, broker_epoch
        with pytest.raises(KafkaError) as rejected:
            IsrChanges(asked, view, version=3)
        assert rejected.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", [2, 3])
def test_ineligible_replicas_are_rejected(version: int) -> None:
    ineligible = ErrorCode.INELIGIBLE_REPLICA
    fenced = one_partition([1, 2, 3], isr=[1], fenced=(2,))
    assert altered(fenced, request(requested([1, 2])), version)[1][0].error_code == ineligible
    unknown = one_partition([1, 2, 3], isr=[1], brokers=(1, 3))
    assert altered(unknown, request(requested([1, 2])), version)[1][0].error_code == ineligible
    stopping = one_partition([1, 2, 3], isr=[1])
    stopping = stopping.after(made_by(stopping, plan_controlled_shutdown, 2))
    assert altered(stopping, request(requested([1, 2])), version)[1][0].error_code == ineligible


def test_a_replica_with_a_stale_broker_epoch_is_ineligible() -> None:
    view = one_partition([1, 2, 3], isr=[1])

    def code(broker_epoch: int, version: int = 3) -> int:
        wanted = requested([1, 2])
        wanted.new_isr_with_epochs[1].broker_epoch = broker_epoch
        return altered(view, request(wanted), version)[1][0].error_code

    assert code(epoch(2) - 1) == ErrorCode.INELIGIBLE_REPLICA
    assert code(epoch(2) - 1, version=2) == ErrorCode.NONE, "version 2 knows no epochs"
    assert code(-1) == ErrorCode.NONE


def test_a_recovering_leader_must_be_the_only_in_sync_replica() -> None:
    view = one_partition([1, 2, 3], isr=[1], leader_recovery_state=RECOVERING)
    assert altered(view, request(requested([1, 2], leader_recovery_state=RECOVERING)))[1][0].error_code == (
        ErrorCode.INVALID_REQUEST
    )
    made, (answer,) = altered(view, request(requested([1], leader_recovery_state=RECOVERING)))
    assert (made, answer.error_code, answer.leader_recovery_state) == ([], 0, RECOVERING)
    made, (answer,) = altered(view, request(requested([1, 2])))
    assert [set_fields(each) for each in made] == [{"isr": [1, 2], "leader_recovery_state": 0}]
    assert answer.leader_recovery_state == 0


def test_a_change_that_ends_a_reassignment_may_cost_the_leadership() -> None:
    view = one_partition([1, 2, 4], isr=[1, 2], removing_replicas=[1], adding_replicas=[4])
    made, (answer,) = altered(view, request(requested([1, 2, 4])))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    after = partition_of(view.after(made))
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2, 4), (2, 4), 2, 6)
    assert after.adding_replicas == after.removing_replicas == ()


def test_a_change_that_ends_a_reassignment_is_answered_with_its_end() -> None:
    view = one_partition([1, 2, 4], isr=[1, 2], removing_replicas=[2], adding_replicas=[4])
    _, (answer,) = altered(view, request(requested([1, 2, 4])))
    assert shown(answer) == (0, 1, 6, [1, 4], 11)


def test_a_partition_named_twice_is_changed_once() -> None:
    view = one_partition([1, 2, 3])
    made, answers = altered(view, request(requested([1, 2]), requested([1, 3])))
    assert len(made) == 1
    assert [answer.error_code for answer in answers] == [0, ErrorCode.INVALID_UPDATE_VERSION]

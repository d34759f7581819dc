"""AssignReplicasToDirs: brokers report the directories of their replicas."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import CHUNK, at_once
from kwire.cluster.controller.plans.replica_directories import DirectoryAssignments
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.directory_ids import LOST
from kwire.cluster.metadata.image import NO_LEADER
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from tests.cluster.controller.support import TOPIC_ID, directory, epoch, one_partition, partition_of


def asked(*wishes: tuple[UUID, UUID, int], broker: int = 1) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=epoch(broker),
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=where,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic, partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index)]
                    )
                ],
            )
            for where, topic, index in wishes
        ],
    )


def assigned(view: ControllerView, *wishes: tuple[UUID, UUID, int], broker: int = 1) -> tuple[list[Any], list[int]]:
    plan = DirectoryAssignments(asked(*wishes, broker=broker), view)
    response = at_once(plan.answer())
    assert [each.id for each in response.directories] == [where for where, _, _ in wishes]
    return plan.records, [each.topics[0].partitions[0].error_code for each in response.directories]


def test_many_assignments_are_made_in_steps_in_however_many_directories() -> None:
    view = one_partition([1, 2], directories=2)
    many = [(directory(1, number), UUID(int=7), 0) for number in range(10 * CHUNK)]
    plan = DirectoryAssignments(asked(*many), view)
    assert sum(1 for _ in plan.answer()) == 10


def test_a_replica_gets_the_directory_that_its_broker_assigns() -> None:
    view = one_partition([1, 2], directories=2)
    made, codes = assigned(view, (directory(1, 1), TOPIC_ID, 0))
    assert codes == [0]
    after = partition_of(view.after(made))
    assert (after.directories, after.isr, after.leader) == ((directory(1, 1), directory(2)), (1, 2), 1)
    assert assigned(view.after(made), (directory(1, 1), TOPIC_ID, 0)) == ([], [0])


def test_a_replica_in_a_failed_directory_is_in_sync_no_longer() -> None:
    for gone in (directory(1, 7), LOST):
        view = one_partition([1, 2])
        made, codes = assigned(view, (gone, TOPIC_ID, 0))
        assert codes == [0]
        after = partition_of(view.after(made))
        assert (after.directories, after.isr, after.leader) == ((gone, directory(2)), (2,), 2)


def test_the_last_one_in_sync_leads_again_when_its_directory_is_no_longer_lost() -> None:
    view = one_partition([1])
    lost, _ = assigned(view, (LOST, TOPIC_ID, 0))
    view = view.after(lost)
    assert partition_of(view).leader == NO_LEADER
    made, codes = assigned(view, (directory(1), TOPIC_ID, 0))
    assert codes == [0]
    after = partition_of(view.after(made))
    assert (after.directories, after.isr, after.leader) == ((directory(1),), (1,), 1)


def test_assignments_that_are_rejected() -> None:
    view = one_partition([1, 2])
    where = directory(1)
    made, codes = assigned(view, (where, UUID(int=5), 0), (where, TOPIC_ID, 1), (where, TOPIC_ID, -1))
    assert (made, codes) == (
        [],
        [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    )
    assert assigned(view, (directory(3), TOPIC_ID, 0), broker=3) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])
    with pytest.raises(KafkaError) as rejected:
        DirectoryAssignments(AssignReplicasToDirsRequest(broker_id=1, broker_epoch=3), view)
    assert rejected.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_the_last_of_several_assignments_counts() -> None:
    view = one_partition([1, 2], directories=2)
    made, _ = assigned(view, (directory(1, 1), TOPIC_ID, 0), (directory(1, 0), TOPIC_ID, 0))
    assert partition_of(view.after(made)).directories[0] == directory(1, 0)

"""Changes of many partitions in one request: planned in pieces, each written as a batch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest
from kwire.protocol.messages.metadata_records import BrokerRegistrationChangeRecord, RemoveTopicRecord
from tests.cluster.test_long_broker_changes import GOES, PARTITIONS, Scene, directory_id, scene

LONG = f"t{PARTITIONS // 2}"
"""Name of the topic with many partitions."""


def _assignments(world: Scene, directory: UUID) -> AssignReplicasToDirsRequest:
    """Return a request that assigns the replicas of GOES of the long topic to a directory."""
    topic = world.log.newest_image.topics[LONG]
    asked = AssignReplicasToDirsRequestTopicData(
        topic_id=topic.topic_id,
        partitions=[
            AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in range(len(topic.partitions))
        ],
    )
    return AssignReplicasToDirsRequest(
        broker_id=GOES,
        broker_epoch=world.log.newest_image.brokers[GOES].broker_epoch,
        directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[asked])],
    )


async def _add_directories(world: Scene, count: int) -> list[UUID]:
    broker = world.log.newest_image.brokers[GOES]
    made = [UUID(int=number) for number in range(1, count + 1)]
    change = BrokerRegistrationChangeRecord(
        broker_id=GOES, broker_epoch=broker.broker_epoch, log_dirs=[directory_id(GOES), *made]
    )
    await world.log.committed(world.log.append([change]))
    return made


class _Log:
    """A metadata log whose node may be elected again."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self.epoch = log.epoch
        self.appended = 0

    def append(self, *batch: Any, **options: Any) -> Any:
        self.appended += 1
        return self._log.append(*batch, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def test_the_pieces_of_all_requests_share_the_steps_of_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            directories = await _add_directories(world, 5)
            log = world.control._log = cast(Any, _Log(world.log))
            requests = [
                asyncio.ensure_future(world.control.assign_directories(_assignments(world, each)))
                for each in directories
            ]
            most = 0
            while not all(request.done() for request in requests):
                before = log.appended
                await asyncio.sleep(0)
                most = max(most, log.appended - before) if before else 0
            assert log.appended > 40
            assert most == 1

    asyncio.run(main())


def test_a_node_that_is_elected_again_between_two_pieces_does_not_answer(tmp_path: Path) -> None:
    """The batches of the first pieces may be lost."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            (directory,) = await _add_directories(world, 1)
            log = world.control._log = cast(Any, _Log(world.log))
            assigning = asyncio.ensure_future(world.control.assign_directories(_assignments(world, directory)))
            await asyncio.sleep(0)
            assert not assigning.done()
            log.epoch += 2
            with pytest.raises(KafkaError) as rejected:
                await assigning
            assert rejected.value.code is ErrorCode.NOT_CONTROLLER

    asyncio.run(main())


def test_a_topic_that_is_deleted_while_leaders_are_elected_is_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            request = ElectLeadersRequest(election_type=0, topic_partitions=None)
            electing = asyncio.ensure_future(world.control.elect_leaders(request))
            await asyncio.sleep(0)
            world.log.append([RemoveTopicRecord(topic_id=world.log.newest_image.topics["t500"].topic_id)])
            answer = await electing
            assert [each.topic for each in answer.replica_election_results] == list(world.log.image.topics)
            assert not any(each.partition_result for each in answer.replica_election_results)

    asyncio.run(main())

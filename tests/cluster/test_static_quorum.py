"""Quorum with voters from controller.quorum.voters: its snapshots, and its upgrade to a dynamic quorum."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.cluster.controller.plans.features import FeatureUpdate, UpgradeType
from kwire.cluster.formatting.formatting import bootstrap_records
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.voters import Listener, VoterSet
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.metadata_node import open_metadata_log
from kwire.cluster.raft.snapshotting import SnapshotConfig, Snapshotting
from kwire.log.disk import RealDisk
from kwire.log.files import METADATA_DIRECTORY
from kwire.log.recovery import Surroundings
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import TopicRecord
from tests.cluster.world import CLUSTER_ID, DIRECTORY_ID, ENDPOINT, NODE, InlineWorkers, controller_of
from tests.log.support import FixedChance, ManualClock
from tests.support.metadata import NoPeers, lead

EACH_TIME = SnapshotConfig(bytes_between=1, interval_ms=0, retention_bytes=-1, retention_ms=-1)


@asynccontextmanager
async def static_quorum(directory: Path) -> AsyncIterator[MetadataLog]:
    """Return a quorum of one that leads."""
    disk, metadata = RealDisk(), str(directory / METADATA_DIRECTORY)
    disk.make_directory(metadata)
    opened = open_metadata_log(
        QuorumConfig(
            cluster_id=CLUSTER_ID,
            node_id=NODE,
            directory_id=DIRECTORY_ID,
            listener=ENDPOINT[0],
            endpoints=(Listener(*ENDPOINT),),
        ),
        directory=metadata,
        surroundings=Surroundings(disk=disk, clock=ManualClock(), random_source=FixedChance()),
        workers=InlineWorkers(),
        channel=NoPeers(),
        static_voters=VoterSet.static([(NODE, *ENDPOINT[1:])], ENDPOINT[0]),
        bootstrap=bootstrap_records(disk, str(directory)),
        segment_bytes=1024**3,
        segment_ms=10**9,
    )
    try:
        await lead(opened)
        yield opened
    finally:
        await opened.close()


async def snapshot(log: MetadataLog) -> list[ControlRecordType]:
    """Return the kinds of the quorum's records in a new snapshot."""
    await log.committed(log.append([TopicRecord(name=f"t{log.next_offset}")]))
    made = await Snapshotting(log, EACH_TIME, clock=ManualClock()).make()
    assert made is not None
    return [kind for kind, _ in log.node.log.load_snapshot(made).controls]


async def upgrade(log: MetadataLog, level: int, *, validate_only: bool = False) -> None:
    update = FeatureUpdate(name="kraft.version", level=level, upgrade_type=UpgradeType.UPGRADE)
    await controller_of(log).update_features([update], controller_id=NODE, validate_only=validate_only)


def test_a_snapshot_does_not_contain_configured_voters(tmp_path: Path) -> None:
    async def main() -> None:
        async with static_quorum(tmp_path) as log:
            assert await snapshot(log) == []
            topics = set(log.image.topics)
        async with static_quorum(tmp_path) as log:
            assert set(log.image.topics) == topics
            assert log.node.quorum.history.voters.ids == {NODE}

    asyncio.run(main())


def test_the_version_of_the_quorum_is_raised_once_and_lasts(tmp_path: Path) -> None:
    async def main() -> None:
        async with static_quorum(tmp_path) as log:
            end = log.next_offset
            await upgrade(log, 1, validate_only=True)
            assert (log.next_offset, log.node.quorum.history.kraft_version) == (end, 0)
            await upgrade(log, 1)
            await upgrade(log, 1)
            assert log.node.quorum.history.kraft_version == 1
            end = log.next_offset
            with pytest.raises(KafkaError) as rejected:
                await upgrade(log, 0)
            assert rejected.value.code is ErrorCode.INVALID_UPDATE_VERSION
            assert log.next_offset == end
            assert await snapshot(log) == [ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS]
        async with static_quorum(tmp_path) as log:
            assert log.node.quorum.history.kraft_version == 1
            assert log.node.quorum.history.voters.is_voter(log.node.quorum._core.config.key)

    asyncio.run(main())


def test_a_quorum_that_is_not_established_rejects_another_version(tmp_path: Path) -> None:
    async def main() -> None:
        async with static_quorum(tmp_path) as log:
            log.node.resign(log.epoch)
            await asyncio.sleep(0)
            with pytest.raises(KafkaError) as rejected:
                await upgrade(log, 1)
            assert rejected.value.code is ErrorCode.NOT_CONTROLLER

    asyncio.run(main())

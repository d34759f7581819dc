"""Several log directories: if one fails, is full or damaged, clients get its errors, and the others continue."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cluster.directory_ids import UNASSIGNED
from kwire.cluster.metadata.image import PartitionImage
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.log.faults import FaultyDisk, broken, full
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

PARTITIONS = 4


@pytest.fixture
def config(directories: list[str]) -> dict[str, str]:
    return {"log.dirs": ",".join(directories), "metadata.log.dir": directories[1]}


def with_slashes(config: dict[str, str]) -> dict[str, str]:
    return config | {
        "log.dirs": config["log.dirs"].replace(",", "/,") + "/",
        "metadata.log.dir": config["metadata.log.dir"] + "/",
    }


@pytest.fixture
def broker(data_dir: Path, disk: FaultyDisk, config: dict[str, str]) -> Iterator[RunningBroker]:
    with RunningBroker(data_dir, config, disk=disk) as running:
        yield running


def codes(client: RawClient, topic: str = "t") -> list[ErrorCode]:
    return [ErrorCode(produce(client, topic, batch(b"v"), partition=index).error_code) for index in range(PARTITIONS)]


def test_other_directories_are_served_when_one_fails(
    broker: RunningBroker, disk: FaultyDisk, directories: list[str]
) -> None:
    with broker.client() as client:
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
        disk.fail = lambda operation, path: broken(operation, path) if path.startswith(directories[0]) else None
        after = codes(client)
        assert sorted(after) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        for index, code in enumerate(after):
            assert fetch(client, "t", 0, partition=index).error_code == code
        described = client.ask(DescribeLogDirsRequest(topics=None), 4)
        assert {result.log_dir: result.error_code for result in described.results} == {
            directories[0]: ErrorCode.KAFKA_STORAGE_ERROR,
            directories[1]: ErrorCode.NONE,
        }
        create_topic(client, name="later")
        assert produce(client, "later", batch(b"v")).error_code == ErrorCode.NONE


def test_a_directory_that_is_gone_is_described_beside_the_others(
    broker: RunningBroker, directories: list[str], data_dir: Path
) -> None:
    """The broker has not detected the loss, because no write has happened since."""
    with broker.client() as client:
        create_topic(client, PARTITIONS, name="t")
        volume, elsewhere = Path(directories[0]), data_dir / "unmounted"
        volume.rename(elsewhere)
        described = client.ask(DescribeLogDirsRequest(topics=None), 4)
        elsewhere.rename(volume)
        assert {result.log_dir: result.error_code for result in described.results} == {
            directories[0]: ErrorCode.KAFKA_STORAGE_ERROR,
            directories[1]: ErrorCode.NONE,
        }
        assert sum(len(topic.partitions) for topic in described.results[1].topics) == PARTITIONS // 2


@pytest.mark.parametrize("has_slashes", [False, True])
def test_the_controller_lists_the_replicas_of_a_failed_directory(
    data_dir: Path, disk: FaultyDisk, config: dict[str, str], directories: list[str], has_slashes: bool
) -> None:
    eager = (with_slashes(config) if has_slashes else config) | {"broker.heartbeat.interval.ms": "50"}
    with RunningBroker(data_dir, eager, disk=disk) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")

        def partitions() -> tuple[PartitionImage, ...]:
            return running.call(lambda: running.server.services.image.topics["t"].partitions)

        eventually(
            lambda: all(each.directories[0] != UNASSIGNED for each in partitions()),
            "the directories are in the metadata",
        )
        assert len({each.directories[0] for each in partitions()}) == 2
        disk.fail = lambda operation, path: broken(operation, path) if path.startswith(directories[0]) else None
        assert sorted(codes(client)) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        eventually(lambda: sorted(each.leader for each in partitions()) == [-1, -1, 1, 1], "two have no leader")
        assert sorted(codes(client)) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    disk.fail = lambda operation, path: None
    with RunningBroker(data_dir, eager, disk=disk) as running, running.client() as client:
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS


def test_a_failed_directory_is_reported_at_once(
    data_dir: Path, disk: FaultyDisk, config: dict[str, str], directories: list[str]
) -> None:
    """The controller must elect other leaders before the next heartbeat."""
    slow = config | {"broker.heartbeat.interval.ms": "100000000", "broker.session.timeout.ms": "200000000"}
    with RunningBroker(data_dir, slow, disk=disk) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")

        def leaders() -> list[int]:
            return sorted(each.leader for each in running.server.services.image.topics["t"].partitions)

        eventually(
            lambda: all(
                each.directories[0] != UNASSIGNED for each in running.server.services.image.topics["t"].partitions
            ),
            "the controller knows where they are",
        )
        disk.fail = lambda operation, path: broken(operation, path) if path.startswith(directories[0]) else None
        codes(client)
        eventually(lambda: leaders() == [-1, -1, 1, 1], "two have no leader")


def test_a_start_without_one_directory_serves_the_others_and_recreates_no_log(
    data_dir: Path, disk: FaultyDisk, config: dict[str, str], directories: list[str]
) -> None:
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
    disk.fail = lambda operation, path: broken(operation, path) if path.startswith(directories[0]) else None
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        assert sorted(codes(client)) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        more = CreatePartitionsTopic(name="t", count=PARTITIONS + 1, assignments=None)
        (changed,) = client.ask(CreatePartitionsRequest(topics=[more], timeout_ms=5000), 3).results
        assert changed.error_code == ErrorCode.NONE
        assert produce(client, "t", batch(b"v"), partition=PARTITIONS).error_code == ErrorCode.NONE
        closed = [code for code in codes(client) if code is ErrorCode.KAFKA_STORAGE_ERROR]
        assert len(closed) == 2  # a change of the topic does not create their logs again either
    disk.fail = lambda operation, path: None
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
        ends = [fetch(client, "t", 0, partition=index).high_watermark for index in range(PARTITIONS)]
        assert sorted(ends) == [2, 2, 4, 4]


def test_partitions_of_a_blank_mount_point_stay_offline_until_the_volume_returns(
    data_dir: Path, config: dict[str, str], directories: list[str]
) -> None:
    volume, elsewhere = Path(directories[0]), data_dir / "unmounted"
    some_are_closed = [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    with RunningBroker(data_dir, config) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
    volume.rename(elsewhere)
    for _ in range(2):
        with RunningBroker(data_dir, config) as running, running.client() as client:
            assert sorted(codes(client)) == some_are_closed
            create_topic(client, PARTITIONS)
    shutil.rmtree(volume)
    elsewhere.rename(volume)
    with RunningBroker(data_dir, config) as running, running.client() as client:
        ends = [fetch(client, "t", 0, partition=index).high_watermark for index in range(PARTITIONS)]
        assert sorted(ends) == [1, 1, 3, 3]


def check_that_partitions_wait_for(volume: Path, data_dir: Path, metadata: str, *, stored: int = 1) -> None:
    """Check two starts without the volume, whose partitions must wait, and one with it; `stored` is the other logs'
    size.
    """
    elsewhere = data_dir / "unmounted"
    volume.rename(elsewhere)
    alone = {"log.dirs": metadata}
    for _ in range(2):
        with RunningBroker(data_dir, alone) as running, running.client() as client:
            assert sorted(codes(client)) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    elsewhere.rename(volume)
    both = {"log.dirs": f"{metadata},{volume}"}
    with RunningBroker(data_dir, both) as running, running.client() as client:
        ends = [fetch(client, "t", 0, partition=index).high_watermark for index in range(PARTITIONS)]
        assert sorted(ends) == [1, 1, stored + 2, stored + 2]


def test_partitions_of_a_missing_directory_newer_than_the_snapshot_stay_offline(
    data_dir: Path, directories: list[str]
) -> None:
    volume, metadata = directories
    often = {"log.dirs": metadata, "metadata.log.max.snapshot.interval.ms": "1"}
    with RunningBroker(data_dir, often):
        eventually(
            lambda: len(list(Path(metadata, "__cluster_metadata-0").glob("*.checkpoint"))) > 1, "a snapshot is made"
        )
    with RunningBroker(data_dir, {"log.dirs": f"{metadata},{volume}"}) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
    check_that_partitions_wait_for(Path(volume), data_dir, metadata)


def test_partitions_of_a_failed_then_unmounted_directory_stay_offline(
    data_dir: Path, disk: FaultyDisk, config: dict[str, str], directories: list[str]
) -> None:
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
        disk.fail = lambda operation, path: broken(operation, path) if path.startswith(directories[0]) else None
        assert sorted(codes(client)) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    check_that_partitions_wait_for(Path(directories[0]), data_dir, directories[1], stored=2)


def test_a_topic_created_without_disk_space_is_served_when_space_is_free(
    broker: RunningBroker, disk: FaultyDisk
) -> None:
    with broker.client() as client:
        disk.fail = lambda operation, path: full(operation, path) if "/t-" in path and operation == "create" else None
        create_topic(client, name="t")
        assert produce(client, "t", batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.fail = lambda operation, path: None
        eventually(lambda: produce(client, "t", batch(b"v")).error_code == ErrorCode.NONE, "the log is made")
        assert values_in(fetch(client, "t", 0).records)[-1] == b"v"


def test_a_topic_of_a_failed_directory_can_be_deleted_and_recreated(
    broker: RunningBroker, disk: FaultyDisk, directories: list[str]
) -> None:
    with broker.client() as client:
        create_topic(client, PARTITIONS, name="t")
        disk.fail = lambda operation, path: broken(operation, path) if path.startswith(directories[0]) else None
        (deleted,) = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6).responses
        assert deleted.error_code == ErrorCode.NONE
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS


def test_topics_that_are_deleted_together_cost_one_sync_of_their_directory(
    broker: RunningBroker, disk: FaultyDisk, directories: list[str]
) -> None:
    names = [f"t{index}" for index in range(6)]
    with broker.client() as client:
        for name in names:
            create_topic(client, name=name)
        disk.operations.clear()
        topics = [DeleteTopicState(name=name) for name in names]
        client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=5000), 6)
        eventually(lambda: all(("fsync", directory) in disk.operations for directory in directories), "they have gone")
    assert [disk.operations.count(("fsync", directory)) for directory in directories] == [1, 1]


def test_a_partition_that_was_moved_behind_a_link_is_served_whole(data_dir: Path, tmp_path: Path) -> None:
    with RunningBroker(data_dir) as running, running.client() as client:
        create_topic(client, name="t", segment_bytes=1 << 20)
        for number in range(8):
            assert produce(client, "t", batch(b"%d" % number + bytes(400_000))).error_code == ErrorCode.NONE
    assert len(list((data_dir / "t-0").glob("*.log"))) > 2
    elsewhere = tmp_path / "volume" / "t-0"
    elsewhere.parent.mkdir()
    (data_dir / "t-0").rename(elsewhere)
    (data_dir / "t-0").symlink_to(elsewhere)
    with RunningBroker(data_dir, {"log.segment.delete.delay.ms": "0"}) as running, running.client() as client:
        assert produce(client, "t", batch(b"8")).base_offset == 8
        read = [values_in(fetch(client, "t", number).records)[0] or b"" for number in range(9)]
        assert [value[:1] for value in read] == [b"%d" % number for number in range(9)]
        client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6)
        assert not (data_dir / "t-0").is_symlink()


@pytest.mark.parametrize("operation", ["lock", "list"])
def test_a_directory_that_failed_once_at_a_start_is_offline_until_the_next(
    data_dir: Path, config: dict[str, str], disk: FaultyDisk, directories: list[str], operation: str
) -> None:
    """The broker could not read the directory's id, and the controller has no record of the failure."""
    with RunningBroker(data_dir, config) as running, running.client() as client:
        create_topic(client, PARTITIONS, name="t")
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS
    failed: list[str] = []

    def fail_once(done: str, path: str) -> DiskFailure | None:
        if done != operation or not path.startswith(directories[0]) or failed:
            return None
        failed.append(path)
        return broken(done, path)

    disk.fail = fail_once
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        assert failed
        assert sorted(codes(client)) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        create_topic(client, PARTITIONS, name="u")
        assert codes(client, "u") == [ErrorCode.NONE] * PARTITIONS
        assert running.call(lambda: running.server._replicas.logs.directories[0].is_offline)
    with RunningBroker(data_dir, config) as running, running.client() as client:
        assert codes(client) == [ErrorCode.NONE] * PARTITIONS

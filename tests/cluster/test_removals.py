"""Removed partitions of a broker: work done at once, work in steps, and reuse of a topic name."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.partitions.removals import NOTIFIED_AT_ONCE, REMOVED_AT_ONCE, Removals
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.log.checkpoints import CLEANER_FILE, RECOVERY_POINT_FILE, read_offsets
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.replication.partition_turns import PartitionTurns
from tests.cluster.full_disk import FullDisk
from tests.cluster.test_partitions import ELSEWHERE, UNHEARD, damaged_at_start, partitions_in, wide
from tests.cluster.world import InlineWorkers
from tests.coordinator.world import topic_image
from tests.log.faults import FaultyDisk, broken, full
from tests.support.listeners import RecordedPartitions
from tests.support.requests import batch

TURNS = 3
COUNT = TURNS * REMOVED_AT_ONCE
NOTHING = MetadataImage()


def started(
    tmp_path: Path,
    image: MetadataImage,
    disk: RealDisk | None = None,
    listener: PartitionListener = UNHEARD,
    **where: Any,
) -> Partitions:
    """Start a broker and open all its partitions."""
    partitions = partitions_in(tmp_path, disk, **where)
    partitions.start(image, listener)
    return partitions


def logs_left(partitions: Partitions) -> int:
    return sum(1 for _ in partitions._logs.logs())


def settle(partitions: Partitions) -> None:
    for job in partitions.removals.sync_jobs():
        job.run()
        job.finish()


def directories(tmp_path: Path) -> list[str]:
    """Return the names of the partition directories, without their random parts."""
    found = (path.name for path in tmp_path.iterdir() if path.is_dir())
    return sorted(name.partition(".")[0] + name[name.rfind("-") :] * ("." in name) for name in found)


class Woken:
    """A waiter on a partition."""

    def __init__(self) -> None:
        self.times = 0

    def data_available(self, size: int) -> None:
        self.times += 1

    def state_changed(self) -> None:
        self.times += 1


def test_the_logs_of_a_wide_topic_are_removed_in_parts_and_not_found_meanwhile(tmp_path: Path) -> None:
    disk = FaultyDisk()
    image = wide("t", COUNT)
    listener = RecordedPartitions()
    partitions = started(tmp_path, image, disk, listener)
    waiter, last = Woken(), partitions.find("t", COUNT - 1)
    last.wait(waiter)
    disk.operations.clear()
    partitions.apply(MetadataDelta(image, NOTHING))
    assert listener.work_left == 1
    assert (list(partitions), partitions.get("t", COUNT - 1)) == ([], None)
    with pytest.raises(KafkaError) as rejected:
        partitions.find("t", COUNT - 1)
    assert rejected.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (listener.removed, last.is_removed, waiter.times) == (list(range(COUNT)), True, 1)
    for turn in range(1, TURNS):
        assert logs_left(partitions) == COUNT - turn * REMOVED_AT_ONCE
        assert [operation for operation, _ in disk.operations] == ["rename"] * turn * REMOVED_AT_ONCE
        assert partitions.removals.do_more() == (turn < TURNS - 1)
    assert directories(tmp_path) == sorted(f"t-{index}-delete" for index in range(COUNT))
    assert not partitions.removals.is_done
    disk.operations.clear()
    settle(partitions)
    assert disk.operations == [("fsync", str(tmp_path))], "once for all of them"
    assert partitions.removals.is_done


def test_all_removed_partitions_are_notified_before_any_log_is_removed(tmp_path: Path) -> None:
    reported: list[int] = []
    removals = Removals(partitions_in(tmp_path)._logs, removed=lambda partition: reported.append(partition.index))

    def removed(name: str, count: int) -> dict[int, Partition]:
        made = (SimpleNamespace(topic=name, index=each, is_removed=False, wake=lambda: None) for each in range(count))
        return {partition.index: cast("Partition", partition) for partition in made}

    removals.add("t", removed("t", NOTIFIED_AT_ONCE + 1))
    assert removals.do_more()
    assert reported == list(range(NOTIFIED_AT_ONCE))
    reported.clear()
    removals.add(GROUP_OFFSETS_TOPIC, removed(GROUP_OFFSETS_TOPIC, 3))
    removals.notify([GROUP_OFFSETS_TOPIC])
    assert reported == [0, 1, 2], "coordinators first"
    while removals.do_more():
        pass
    assert reported == [0, 1, 2, NOTIFIED_AT_ONCE]


@pytest.mark.parametrize("deleted_before", [True, False], ids=["deleted before", "in one change"])
def test_a_recreated_topic_never_uses_the_logs_of_its_predecessor(tmp_path: Path, deleted_before: bool) -> None:
    disk = FaultyDisk()
    image = wide("t", COUNT)
    partitions = started(tmp_path, image, disk)
    partitions.find("t", COUNT - 1).append(bytearray(batch(b"a")), acks=1)
    again = dataclasses.replace(NOTHING, topics={"t": topic_image("t", 2, COUNT)})
    if deleted_before:
        partitions.apply(MetadataDelta(image, NOTHING))
        assert partitions._logs.get("t", COUNT - 1) is not None
    partitions.apply(MetadataDelta(NOTHING if deleted_before else image, again))
    assert list(partitions) == [], "the logs of the topic before go first"
    disk.operations.clear()
    partition = partitions.find("t", COUNT - 1)
    assert partition.log.log_end_offset == 0
    assert partition.log.topic_id == again.topics["t"].topic_id
    steps = [operation for operation, path in disk.operations if operation in ("rename", "fsync", "make directory")]
    assert steps[:2] == ["rename", "fsync"], "the old name is durably gone before it is used again"
    while partitions.removals.do_more():
        pass
    while partitions.open_more():
        pass
    assert {each.log.log_end_offset for each in partitions} == {0}
    assert len(list(partitions)) == logs_left(partitions) == COUNT
    assert not any(name.endswith("stray") for name in directories(tmp_path))


def test_a_replica_reassigned_while_its_log_waits_for_removal_starts_empty(tmp_path: Path) -> None:
    image = wide("t", COUNT)
    partitions = started(tmp_path, image)
    partitions.find("t", COUNT - 1).append(bytearray(batch(b"a")), acks=1)
    topic = image.topics["t"]
    away = dataclasses.replace(image, topics={"t": dataclasses.replace(topic, partitions=(ELSEWHERE,) * COUNT)})
    partitions.apply(MetadataDelta(image, away))
    assert partitions._logs.get("t", COUNT - 1) is not None
    partitions.apply(MetadataDelta(away, image))
    assert partitions.find("t", COUNT - 1).log.log_end_offset == 0


def test_a_crash_in_between_leaves_logs_that_the_next_start_sets_aside(tmp_path: Path) -> None:
    image = wide("t", COUNT)
    partitions = started(tmp_path, image)
    for partition in list(partitions):
        partition.append(bytearray(batch(b"a")), acks=1)
        partition.log.flush()
    partitions.apply(MetadataDelta(image, NOTHING))
    partitions._logs.directories.checkpoint({})
    named = read_offsets(RealDisk(), f"{tmp_path}/{RECOVERY_POINT_FILE}")
    assert named == {("t", index): 1 for index in range(REMOVED_AT_ONCE, COUNT)}, "what is still there, and no other"
    partitions._logs.close(clean=False)
    again = started(tmp_path, NOTHING)
    assert (list(again), logs_left(again)) == ([], 0)
    suffixes = ["delete" if index < REMOVED_AT_ONCE else "stray" for index in range(COUNT)]
    assert directories(tmp_path) == sorted(f"t-{index}-{suffix}" for index, suffix in enumerate(suffixes))


def test_the_cleaners_checkpoint_does_not_name_what_has_gone(tmp_path: Path) -> None:
    image = wide("t", COUNT)
    partitions = started(tmp_path, image)
    for partition in list(partitions):
        partition.append(bytearray(batch(b"a")), acks=1)
        partition.log.offsets.first_dirty = 1
    (directory,) = partitions._logs.directories
    partitions._logs.directories.write_checkpoints(directory, [CLEANER_FILE])
    partitions.apply(MetadataDelta(image, NOTHING))
    settle(partitions)
    left = {("t", index): 1 for index in range(REMOVED_AT_ONCE, COUNT)}
    assert read_offsets(RealDisk(), f"{tmp_path}/{CLEANER_FILE}") == left
    while partitions.removals.do_more():
        pass
    settle(partitions)
    assert read_offsets(RealDisk(), f"{tmp_path}/{CLEANER_FILE}") == {}


@pytest.mark.parametrize("operation", ["rename", "fsync"])
def test_a_device_that_fails_during_a_removal_takes_only_its_directory_offline(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk()
    paths = [str(tmp_path / name) for name in ("d0", "d1")]
    image = wide("t", COUNT)
    partitions = started(tmp_path, image, disk, paths=paths)
    partitions.apply(MetadataDelta(image, NOTHING))
    disk.fail = lambda what, path: broken(what, path) if what == operation and path.startswith(paths[0]) else None
    while partitions.removals.do_more():
        pass
    settle(partitions)
    assert [directory.is_offline for directory in partitions._logs.directories] == [True, False]
    assert {name.rpartition("-")[2] for name in directories(tmp_path / "d1")} == {"delete"}
    assert logs_left(partitions) == 0
    assert partitions.removals.is_done


def test_a_recreated_topic_waits_until_the_logs_of_its_predecessor_are_durably_removed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    image = wide("t", 1)
    listener = RecordedPartitions()
    partitions = started(tmp_path, image, disk, listener)
    disk.fail = lambda operation, path: full(operation, path) if operation == "fsync" else None
    partitions.apply(MetadataDelta(image, NOTHING))
    settle(partitions)
    heard = listener.work_left
    partitions.open_closed(NOTHING)
    assert listener.work_left == heard + 1, "the sync is tried again"
    again = dataclasses.replace(NOTHING, topics={"t": topic_image("t", 2, 1)})
    partitions.apply(MetadataDelta(NOTHING, again))
    assert directories(tmp_path) == ["t-0-delete"], "there is no descriptor for the sync"
    assert partitions.any_closed
    disk.fail = lambda operation, path: None
    partitions.open_closed(again)
    assert partitions.find("t", 0).log.topic_id == again.topics["t"].topic_id
    assert partitions.removals.is_done
    assert not partitions._logs.directories.any_offline


def test_logs_that_are_not_open_go_in_parts_too(tmp_path: Path) -> None:
    partitions = partitions_in(tmp_path, FullDisk())
    image = wide("t", COUNT)
    partitions.start(image, PartitionListener())
    assert partitions.any_closed
    partitions.apply(MetadataDelta(image, NOTHING))
    with pytest.raises(KafkaError) as rejected:
        partitions.find("t", COUNT - 1)
    assert rejected.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for _ in range(1, TURNS - 1):
        assert partitions.removals.do_more()
    assert not partitions.removals.do_more()


def test_a_damaged_log_makes_room_for_the_next_topic_of_its_name(tmp_path: Path) -> None:
    partitions, image = damaged_at_start(tmp_path)
    again = dataclasses.replace(image, topics={"t": topic_image("t", 2, 1)})
    partitions.apply(MetadataDelta(image, again))
    assert partitions.find("t", 0).log.log_end_offset == 0
    assert directories(tmp_path) == ["t-0", "t-0-delete"]


class TurningWorkers(InlineWorkers):
    """Workers that record how many logs were removed at each call."""

    def __init__(self, logs: LogManager) -> None:
        super().__init__()
        self.left: list[int] = []
        self._logs = logs

    async def run(self, call: Any) -> Any:
        self.left.append(sum(1 for _ in self._logs.logs()))
        return call()


def test_the_loop_turns_between_two_parts_and_a_worker_waits_for_the_disk(tmp_path: Path) -> None:
    image = wide("t", COUNT)
    listener = RecordedPartitions()
    partitions = started(tmp_path, image, listener=listener)
    workers = TurningWorkers(partitions._logs)
    left: list[int] = []

    async def act() -> None:
        turns = PartitionTurns(partitions, workers)
        listener.on_more_work = turns.more_work_found
        turning = asyncio.get_running_loop().create_task(turns.run())
        await asyncio.sleep(0)
        partitions.apply(MetadataDelta(image, NOTHING))
        async with asyncio.timeout(30):
            while not partitions.removals.is_done:
                left.append(logs_left(partitions))
                await asyncio.sleep(0)
        turning.cancel()

    asyncio.run(act())
    assert set(range(0, COUNT, REMOVED_AT_ONCE)) <= {*left, 0}
    assert all(before - after <= REMOVED_AT_ONCE for before, after in itertools.pairwise(left))
    assert workers.left == [0]

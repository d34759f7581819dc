"""Logs found at start that belong to this broker, and the number of new logs opened at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.in_sync import Peers
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.partitions import CONFIGURED_AT_ONCE, OPENED_AT_ONCE, OPENED_IN_TURN, Partitions
from kwire.log.checkpoints import RECOVERY_POINT_FILE, read_offsets
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, RealDisk
from kwire.log.errors import CorruptLogError
from kwire.log.log_manager import LogManager
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.cluster.full_disk import FullDisk
from tests.coordinator.world import BROKER_ID, no_group_commit, topic_image
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import surroundings
from tests.support.compiled import replaces_methods
from tests.support.listeners import RecordedPartitions
from tests.support.metadata import Alone
from tests.support.requests import batch

UNHEARD = PartitionListener()
OURS = topic_image("t", 1, 2)
ELSEWHERE = dataclasses.replace(
    OURS.partitions[0], replicas=(BROKER_ID + 1,), isr=(BROKER_ID + 1,), leader=BROKER_ID + 1
)


def partitions_in(
    tmp_path: Path, disk: RealDisk | None = None, peers: Peers | None = None, paths: Sequence[str] = ()
) -> Partitions:
    """Return the partitions of a broker that is about to start on this directory."""
    settings = default_settings()
    return Partitions(
        broker_id=BROKER_ID,
        logs=LogManager(paths or [str(tmp_path)], surroundings(disk)),
        group_commit=no_group_commit(),
        peers=Alone() if peers is None else peers,
        settings_of=lambda image: settings,
    )


def started(tmp_path: Path, topic: TopicImage | None) -> Partitions:
    """Start a broker that finds logs of t-0 and t-1, with metadata that contain this topic."""
    before = LogManager([str(tmp_path)], surroundings())
    for index in range(2):
        before.get_or_create("t", index, LogConfig(), UUID(int=1))
    before.close(clean=True)
    partitions = partitions_in(tmp_path)
    topics = {} if topic is None else {"t": topic}
    partitions.start(dataclasses.replace(MetadataImage(), topics=topics), PartitionListener())
    return partitions


@pytest.mark.parametrize(
    ("topic", "kept"),
    [
        (OURS, {0, 1}),
        (None, set()),
        (dataclasses.replace(OURS, topic_id=UUID(int=2)), set()),
        (dataclasses.replace(OURS, partitions=OURS.partitions[:1]), {0}),
        (dataclasses.replace(OURS, partitions=(ELSEWHERE, OURS.partitions[1])), {1}),
    ],
)
def test_logs_that_are_not_ours_are_set_aside(tmp_path: Path, topic: TopicImage | None, kept: set[int]) -> None:
    started(tmp_path, topic)
    strays = {path.name.partition(".")[0] for path in tmp_path.glob("*-stray")}
    assert strays == {f"t-{index}" for index in {0, 1} - kept}
    assert {0, 1} - {int(name[-1]) for name in strays} == kept


def test_a_log_of_an_unknown_topic_does_not_replace_one_in_a_missing_directory(tmp_path: Path) -> None:
    before = LogManager([str(tmp_path)], surroundings())
    before.get_or_create("t", 0, LogConfig(), UUID(int=1))
    before.close(clean=False)
    (tmp_path / "t-0" / "partition.metadata").unlink()
    partitions = partitions_in(tmp_path)
    partitions.start(
        dataclasses.replace(MetadataImage(), topics={"t": OURS}), PartitionListener(), is_directory_lost=True
    )
    assert partitions.get("t", 0) is None


@pytest.mark.parametrize(("in_sync", "is_open"), [((BROKER_ID, BROKER_ID + 1), False), ((BROKER_ID + 1,), True)])
def test_a_replica_in_a_lost_directory_is_recreated_if_it_is_not_in_sync(
    tmp_path: Path, in_sync: tuple[int, ...], is_open: bool
) -> None:
    partitions = partitions_in(tmp_path)
    both = (BROKER_ID, BROKER_ID + 1)
    before = dataclasses.replace(OURS.partitions[0], replicas=both, isr=both, leader=BROKER_ID + 1)
    image = dataclasses.replace(MetadataImage(), topics={"t": dataclasses.replace(OURS, partitions=(before,))})
    partitions.start(image, PartitionListener(), is_directory_lost=True)
    assert partitions.get("t", 0) is None
    after = dataclasses.replace(before, isr=in_sync, partition_epoch=before.partition_epoch + 1)
    partitions.apply(
        MetadataDelta(image, dataclasses.replace(image, topics={"t": dataclasses.replace(OURS, partitions=(after,))}))
    )
    assert (partitions.get("t", 0) is not None) == is_open


def wide(name: str, partitions: int) -> MetadataImage:
    topic = topic_image(name, 1, partitions)
    return dataclasses.replace(MetadataImage(), topics={name: topic})


def open_indexes(partitions: Partitions, name: str) -> set[int]:
    return {partition.index for partition in partitions if partition.topic == name}


def test_new_partitions_beyond_what_is_opened_at_once_wait_for_their_turn(tmp_path: Path) -> None:
    partitions = partitions_in(tmp_path)
    listener = RecordedPartitions()
    partitions.start(MetadataImage(), listener)
    count = 2 * OPENED_AT_ONCE + 1
    partitions.apply(MetadataDelta(MetadataImage(), wide("t", count)))
    assert listener.work_left == 1
    assert open_indexes(partitions, "t") == set(range(OPENED_AT_ONCE))
    for turn in range(1, (count - OPENED_AT_ONCE) // OPENED_IN_TURN + 1):
        assert partitions.open_more()
        assert open_indexes(partitions, "t") == set(range(OPENED_AT_ONCE + turn * OPENED_IN_TURN))
    assert not partitions.open_more()
    assert open_indexes(partitions, "t") == set(range(count))


def test_a_partition_that_is_asked_for_is_opened_before_its_turn(tmp_path: Path) -> None:
    partitions = partitions_in(tmp_path)
    partitions.start(MetadataImage(), PartitionListener())
    image = wide("t", OPENED_AT_ONCE + 3)
    topic = image.topics["t"]
    elsewhere = dataclasses.replace(topic, partitions=(*topic.partitions[:-1], ELSEWHERE))
    partitions.apply(MetadataDelta(MetadataImage(), dataclasses.replace(image, topics={"t": elsewhere})))
    assert partitions.find("t", OPENED_AT_ONCE + 1).index == OPENED_AT_ONCE + 1
    assert open_indexes(partitions, "t") == {*range(OPENED_AT_ONCE), OPENED_AT_ONCE + 1}
    asked = partitions.get("t", OPENED_AT_ONCE)
    assert asked is not None
    assert asked.is_led
    assert partitions.get("t", OPENED_AT_ONCE + 2) is None
    for index, code in {
        OPENED_AT_ONCE + 2: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        OPENED_AT_ONCE + 3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }.items():
        with pytest.raises(KafkaError) as rejected:
            partitions.find("t", index)
        assert rejected.value.code is code
    assert not partitions.open_more()
    assert open_indexes(partitions, "t") == set(range(OPENED_AT_ONCE + 2))


def test_partitions_may_be_opened_during_an_iteration(tmp_path: Path) -> None:
    """An iteration may commit records that complete a transaction, whose markers go to partitions that are not open."""
    partitions = partitions_in(tmp_path)
    partitions.start(MetadataImage(), PartitionListener())
    first = topic_image("t", 1, OPENED_AT_ONCE + 1)
    image = dataclasses.replace(MetadataImage(), topics={"t": first, "u": topic_image("u", 2, 1)})
    partitions.apply(MetadataDelta(MetadataImage(), image))
    for _ in partitions:
        partitions.find("t", OPENED_AT_ONCE)
        partitions.find("u", 0)
    assert open_indexes(partitions, "t") == set(range(OPENED_AT_ONCE + 1))
    assert open_indexes(partitions, "u") == {0}


def test_partitions_that_wait_to_be_opened_use_the_newest_metadata(tmp_path: Path) -> None:
    partitions = partitions_in(tmp_path)
    partitions.start(MetadataImage(), PartitionListener())
    first = wide("t", OPENED_AT_ONCE + 2)
    partitions.apply(MetadataDelta(MetadataImage(), first))
    topic = first.topics["t"]
    moved = dataclasses.replace(topic, partitions=(*topic.partitions[:-1], ELSEWHERE))
    second = dataclasses.replace(first, topics={"t": moved})
    partitions.apply(MetadataDelta(first, second))
    assert open_indexes(partitions, "t") == set(range(OPENED_AT_ONCE + 1))
    third = wide("u", OPENED_AT_ONCE + 2)
    partitions.apply(MetadataDelta(second, third))
    partitions.apply(MetadataDelta(third, MetadataImage()))
    assert not partitions.open_more()
    assert list(partitions) == []


class Alive(Alone):
    """Peers where all brokers are alive."""

    def is_unfenced(self, broker_id: int) -> bool:
        return True

    def is_superseded(self, broker_id: int, broker_epoch: int) -> bool:
        return False


@pytest.mark.parametrize("needed", [1, 2])
def test_an_isr_shrink_uses_the_new_min_insync_replicas(tmp_path: Path, needed: int) -> None:
    """min.insync.replicas changed before the in-sync set, and the broker receives both changes at once."""
    partitions = partitions_in(tmp_path, peers=Alive())
    partitions.start(MetadataImage(), PartitionListener())
    all_of_them = (BROKER_ID, BROKER_ID + 1)
    before = dataclasses.replace(OURS.partitions[0], replicas=all_of_them, isr=all_of_them)
    old = dataclasses.replace(MetadataImage(), topics={"t": dataclasses.replace(OURS, partitions=(before,))})
    partitions.apply(MetadataDelta(MetadataImage(), old))
    leader = partitions.find("t", 0)
    leader.append(bytearray(batch(b"a")), acks=1)
    assert leader.high_watermark == 0
    alone = dataclasses.replace(before, isr=(BROKER_ID,), partition_epoch=before.partition_epoch + 1)
    new = dataclasses.replace(
        old,
        topics={"t": dataclasses.replace(OURS, partitions=(alone,))},
        configs={(int(ConfigResourceType.TOPIC), "t"): {"min.insync.replicas": str(needed)}},
    )
    partitions.apply(MetadataDelta(old, new))
    assert leader.high_watermark == (1 if needed == 1 else 0)


MANY: Final = 2 * CONFIGURED_AT_ONCE + 1
LAST: Final = f"t{MANY - 1}"


def configured(image: MetadataImage, **values: str) -> MetadataImage:
    """Return the image with these configurations for all its topics."""
    texts = {name.replace("_", "."): value for name, value in values.items()}
    return dataclasses.replace(image, configs={(int(ConfigResourceType.TOPIC), name): texts for name in image.topics})


def with_new_configs(partitions: Partitions) -> int:
    return sum(1 for partition in partitions if partition.log.config.min_insync_replicas == 2)


def with_many_topics(tmp_path: Path, listener: PartitionListener = UNHEARD) -> tuple[Partitions, MetadataImage]:
    """Return a broker that leads a partition in each of many topics; the other replica has fetched nothing."""
    partitions = partitions_in(tmp_path, peers=Alive())
    both = (BROKER_ID, BROKER_ID + 1)
    shared = dataclasses.replace(OURS.partitions[0], replicas=both, isr=both)
    topics = {
        f"t{number}": dataclasses.replace(topic_image(f"t{number}", 1 + number, 1), partitions=(shared,))
        for number in range(MANY)
    }
    image = dataclasses.replace(MetadataImage(), topics=topics)
    partitions.start(image, listener)
    return partitions, image


def test_many_topics_take_their_configurations_in_parts_and_one_that_is_asked_for_at_once(tmp_path: Path) -> None:
    listener = RecordedPartitions()
    partitions, image = with_many_topics(tmp_path, listener)
    partitions.apply(MetadataDelta(image, configured(image, min_insync_replicas="2")))
    assert listener.work_left == 1
    assert with_new_configs(partitions) == CONFIGURED_AT_ONCE
    assert partitions.find(LAST, 0).log.config.min_insync_replicas == 2
    assert with_new_configs(partitions) == CONFIGURED_AT_ONCE + 1
    assert not partitions.configure_more()
    assert with_new_configs(partitions) == MANY


def test_a_topic_that_has_gone_needs_no_configuration(tmp_path: Path) -> None:
    partitions, image = with_many_topics(tmp_path)
    altered = configured(image, min_insync_replicas="2")
    partitions.apply(MetadataDelta(image, altered))
    rest = {name: topic for name, topic in image.topics.items() if name != LAST}
    partitions.apply(MetadataDelta(altered, dataclasses.replace(altered, topics=rest)))
    while partitions.configure_more():
        pass
    assert with_new_configs(partitions) == MANY - 1


def in_sync_alone(image: MetadataImage, name: str) -> MetadataImage:
    topic = image.topics[name]
    alone = dataclasses.replace(topic.partitions[0], isr=(BROKER_ID,), partition_epoch=1)
    return dataclasses.replace(image, topics={**image.topics, name: dataclasses.replace(topic, partitions=(alone,))})


@pytest.mark.parametrize("at_once", [True, False], ids=["in one change", "one after the other"])
@pytest.mark.parametrize("needed", [1, 2])
def test_an_in_sync_set_changes_after_the_configuration_of_its_topic(
    tmp_path: Path, needed: int, at_once: bool
) -> None:
    """The order holds for any number of topics with changed configurations."""
    partitions, image = with_many_topics(tmp_path)
    leader = partitions.find(LAST, 0)
    leader.append(bytearray(batch(b"a")), acks=1)
    altered = configured(image, min_insync_replicas=str(needed))
    if not at_once:
        partitions.apply(MetadataDelta(image, altered))
        assert leader.log.config.min_insync_replicas == 1, "this one waits for its turn"
    partitions.apply(MetadataDelta(image if at_once else altered, in_sync_alone(altered, LAST)))
    assert leader.log.config.min_insync_replicas == needed
    assert leader.high_watermark == (1 if needed == 1 else 0)


@replaces_methods
def test_live_replicas_are_updated_after_all_topic_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions, image = with_many_topics(tmp_path)
    seen: list[int] = []
    monkeypatch.setattr(Partition, "live_replicas_changed", lambda _: seen.append(with_new_configs(partitions)))
    altered = configured(image, min_insync_replicas="2")
    partitions.apply(MetadataDelta(image, dataclasses.replace(altered, brokers={})))
    assert seen == []
    while partitions.configure_more():
        assert seen == []
    assert seen == [MANY] * MANY


def damaged_at_start(tmp_path: Path, listener: PartitionListener = UNHEARD) -> tuple[Partitions, MetadataImage]:
    """Return a broker that finds the log of t-0 damaged below its recovery point."""
    before = LogManager([str(tmp_path)], surroundings())
    log = before.get_or_create("t", 0, LogConfig(), UUID(int=1))
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    before.directories.checkpoint({})
    before.close(clean=False)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    image = dataclasses.replace(MetadataImage(), topics={"t": topic_image("t", 1, 1)})
    partitions = partitions_in(tmp_path)
    partitions.start(image, listener)
    return partitions, image


def test_a_log_damaged_at_start_is_reported_repeatedly(tmp_path: Path) -> None:
    listener = RecordedPartitions()
    partitions, image = damaged_at_start(tmp_path, listener)
    assert listener.closed == [("t", 0, True)]
    topic = image.topics["t"]
    after = dataclasses.replace(topic.partitions[0], isr=(BROKER_ID, 2), partition_epoch=1)
    partitions.apply(
        MetadataDelta(image, dataclasses.replace(image, topics={"t": dataclasses.replace(topic, partitions=(after,))}))
    )
    assert listener.closed == [("t", 0, True)] * 2, "another replica may lead now"


@pytest.mark.parametrize("how", ["deleted", "moved away"])
def test_a_damaged_log_goes_with_its_topic(tmp_path: Path, how: str) -> None:
    partitions, image = damaged_at_start(tmp_path)
    topics = {} if how == "deleted" else {"t": dataclasses.replace(image.topics["t"], partitions=(ELSEWHERE,))}
    gone = dataclasses.replace(image, topics=topics)
    partitions.apply(MetadataDelta(image, gone))
    assert not (tmp_path / "t-0").exists()
    again = dataclasses.replace(image, topics={"t": topic_image("t", 2, 1)})
    partitions.apply(MetadataDelta(gone, again))
    assert partitions.find("t", 0).log.log_end_offset == 0


def test_partitions_that_cannot_be_opened_do_not_delay_others(tmp_path: Path) -> None:
    partitions = partitions_in(tmp_path, FullDisk())
    partitions.start(MetadataImage(), PartitionListener())
    count = 2 * OPENED_AT_ONCE
    t, u = wide("t", count).topics["t"], wide("u", count).topics["u"]
    partitions.apply(MetadataDelta(MetadataImage(), dataclasses.replace(MetadataImage(), topics={"u": u, "t": t})))
    for _ in range((2 * count - OPENED_AT_ONCE) // OPENED_IN_TURN):
        is_more = partitions.open_more()
    assert not is_more
    assert open_indexes(partitions, "t") == set()
    assert open_indexes(partitions, "u") == set(range(count))
    with pytest.raises(KafkaError) as rejected:
        partitions.find("t", count - 1)
    assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_opening_partitions_without_disk_space_is_retried_a_few_at_a_time(tmp_path: Path) -> None:
    disk = FullDisk()
    partitions = partitions_in(tmp_path, disk)
    listener = RecordedPartitions()
    partitions.start(MetadataImage(), listener)
    image = wide("t", OPENED_AT_ONCE + 2 * OPENED_IN_TURN + 1)
    count = len(image.topics["t"].partitions)

    def tried(call: Callable[[], bool | None]) -> int:
        before = disk.tried
        call()
        return disk.tried - before

    assert tried(lambda: partitions.apply(MetadataDelta(MetadataImage(), image))) == OPENED_AT_ONCE
    assert [tried(partitions.open_more) for _ in range(4)] == [OPENED_IN_TURN, OPENED_IN_TURN, 1, 0]
    heard = listener.work_left
    assert tried(lambda: partitions.open_closed(image)) == OPENED_IN_TURN
    assert listener.work_left == heard + 1
    assert tried(partitions.open_more) == OPENED_IN_TURN
    assert tried(lambda: partitions.open_closed(image)) == OPENED_IN_TURN, "it goes on where the last one came to"
    assert partitions.open_more() is False
    disk.is_full = False
    partitions.open_closed(image)
    while partitions.open_more():
        pass
    assert open_indexes(partitions, "t") == set(range(count))


def test_a_leader_whose_log_is_damaged_follows_the_metadata_all_the_same(tmp_path: Path) -> None:
    partitions = partitions_in(tmp_path)
    partitions.start(MetadataImage(), PartitionListener())
    image = wide("t", 1)
    partitions.apply(MetadataDelta(MetadataImage(), image))
    partitions.find("t", 0).log.health.damaged(CorruptLogError("a batch is not what was written"))
    topic = image.topics["t"]
    later = dataclasses.replace(topic.partitions[0], leader_epoch=topic.partitions[0].leader_epoch + 1)
    after = {"t": dataclasses.replace(topic, partitions=(later,))}
    partitions.apply(MetadataDelta(image, dataclasses.replace(image, topics=after)))
    with pytest.raises(KafkaError) as rejected:
        partitions.find("t", 0)
    assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_log_directory_that_returns_with_a_log_of_an_earlier_topic(tmp_path: Path, order: tuple[int, int]) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path, topic_id in zip(paths, order, strict=True):
        before = LogManager([path], surroundings())
        before.get_or_create("t", 0, LogConfig(), UUID(int=topic_id))
        before.close(clean=True)
    partitions = partitions_in(tmp_path / "a", paths=paths)
    topic = dataclasses.replace(OURS, topic_id=UUID(int=1), partitions=OURS.partitions[:1])
    partitions.start(dataclasses.replace(MetadataImage(), topics={"t": topic}), PartitionListener())
    partition = partitions.find("t", 0)
    assert partition.log.topic_id == UUID(int=1)
    assert [path.parent.name for path in tmp_path.glob("?/*-stray")] == ["ab"[order.index(2)]]


def test_a_log_that_found_no_space_is_not_opened_when_its_topic_has_gone(tmp_path: Path) -> None:
    """The retry may use newer metadata than the broker has applied."""
    disk = FullDisk()
    partitions = partitions_in(tmp_path, disk)
    partitions.start(MetadataImage(), PartitionListener())
    made = dataclasses.replace(MetadataImage(), topics={"t": OURS}, topic_names={OURS.topic_id: "t"})
    partitions.apply(MetadataDelta(MetadataImage(), made))
    partitions.open_closed(MetadataImage())
    with pytest.raises(KafkaError) as rejected:
        partitions.find("t", 0)
    assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    partitions.apply(MetadataDelta(made, MetadataImage()))
    assert not partitions.any_closed
    assert list(partitions) == []


@pytest.mark.parametrize("failure", [broken, full])
def test_a_stray_log_that_cannot_be_renamed_does_not_prevent_the_start(
    tmp_path: Path, failure: Callable[[str, str], DiskFailure]
) -> None:
    paths = [str(tmp_path / "d0"), str(tmp_path / "d1")]
    before = LogManager(paths, surroundings())
    log = before.get_or_create("stray", 0, LogConfig(), OURS.topic_id)
    log.append(batch(b"a"), leader_epoch=0)
    before.close(clean=True)
    disk = FaultyDisk()
    partitions = partitions_in(tmp_path, disk, paths=paths)
    disk.fail = lambda operation, path: failure(operation, path) if operation == "rename" and "stray" in path else None
    partitions.start(MetadataImage(), PartitionListener())
    assert [directory.is_offline for directory in partitions._logs.directories] == [failure is broken, False]
    assert partitions.get("stray", 0) is None
    disk.fail = lambda operation, path: None
    partitions._logs.directories.checkpoint({})
    assert read_offsets(RealDisk(), f"{paths[0]}/{RECOVERY_POINT_FILE}") == {("stray", 0): 1}


@pytest.mark.parametrize("operation", ["list", "read"])
def test_a_replica_waits_for_a_directory_that_failed_at_start_beside_a_missing_one(
    tmp_path: Path, operation: str
) -> None:
    """The broker must not create the replica elsewhere, even if it is in no in-sync set: it would exist twice."""
    paths = [str(tmp_path / "d0"), str(tmp_path / "d1")]
    before = LogManager(paths[1:], surroundings())
    log = before.get_or_create("t", 0, LogConfig(), OURS.topic_id)
    log.append(batch(b"a"), leader_epoch=0)
    before.close(clean=operation == "list")
    other = BROKER_ID + 1
    followed = dataclasses.replace(OURS.partitions[0], replicas=(BROKER_ID, other), isr=(other,), leader=other)
    image = dataclasses.replace(
        MetadataImage(), topics={"t": dataclasses.replace(OURS, partitions=(followed, OURS.partitions[1]))}
    )
    disk = FaultyDisk()
    partitions = partitions_in(tmp_path, disk, paths=paths)
    disk.fail = lambda done, path: broken(done, path) if done == operation and path.startswith(paths[1]) else None
    partitions.start(image, PartitionListener(), is_directory_lost=True)
    assert partitions.get("t", 0) is None
    partitions._logs.close(clean=True)
    again = partitions_in(tmp_path, paths=paths)
    again.start(image, PartitionListener(), is_directory_lost=True)
    found = again.get("t", 0)
    assert found is not None
    assert (found.log.directory, found.log.log_end_offset) == (f"{paths[1]}/t-0", 1)

"""Group coordinator over real logs in a directory, with virtual time; it can be stopped and started again."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import read_settings
from kwire.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.group_commit import FlushablePartition, GroupCommit
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.machine import GroupMachine
from kwire.coordinator.group.records import GroupRecord, decode_group_record
from kwire.coordinator.group.share.settings import ShareGroupConfig
from kwire.coordinator.group.streams.settings import StreamsGroupConfig
from kwire.coordinator.group_coordinator import GroupConfig, GroupCoordinator
from kwire.log.config import LogConfig
from kwire.log.disk import Disk, RealDisk
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.protocol.records import decode_all
from tests.cluster.world import InlineWorkers
from tests.log.support import FixedChance
from tests.support.listeners import ForwardedPartitions
from tests.support.metadata import Alone
from tests.virtual_loop import VirtualClock

BROKER_ID = 1


def topic_image(name: str, number: int, partitions: int) -> TopicImage:
    partition = PartitionImage(
        replicas=(BROKER_ID,),
        directories=(UUID(int=9),),
        isr=(BROKER_ID,),
        leader=BROKER_ID,
        leader_epoch=0,
        partition_epoch=0,
    )
    return TopicImage(name=name, topic_id=UUID(int=number), partitions=(partition,) * partitions)


def no_failure(error: BaseException) -> None:
    """Reject any failure: no log fails in this world."""
    raise AssertionError from error


class FlushesAtOnce(GroupCommit):
    """Synchronous group commit for partitions without an event loop."""

    def __init__(self) -> None:
        super().__init__(cast("LogManager", None), InlineWorkers(), failed=no_failure)

    def request(self, partition: FlushablePartition) -> None:
        """Complete a truncation and flush the log."""
        partition.log.complete_truncation()
        partition.log.flush()
        partition.flushed()


def no_group_commit() -> GroupCommit:
    """Return a group commit for partitions whose appends need no flush."""
    return FlushesAtOnce()


class HeldFlushes(GroupCommit):
    """Group commit whose flushes a test can hold."""

    is_held = False

    def request(self, partition: FlushablePartition) -> None:
        if not self.is_held:
            super().request(partition)


class SettableClock(VirtualClock):
    """Clock of a virtual loop whose wall time can be set back."""

    set_back_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() - self.set_back_ms


class World:
    """Parts of a broker that its group coordinator needs."""

    def __init__(
        self,
        directory: Path | str,
        loop: asyncio.AbstractEventLoop,
        *,
        offsets_partitions: int = 1,
        disk: Disk | None = None,
    ) -> None:
        self._disk = disk or RealDisk()
        self.clock = SettableClock(loop)
        self.random_source = FixedChance()
        self.config = GroupConfig()
        self.settings: Mapping[str, Any] = default_settings()
        """Typed values of all broker keys, from which groups take their settings."""
        self.consumer_config = read_settings(ConsumerGroupConfig, self.settings)
        self._directory = str(directory)
        topics = [topic_image(GROUP_OFFSETS_TOPIC, 100, offsets_partitions), topic_image("t", 101, 2)]
        topics.append(topic_image("u", 102, 2))
        self.image = MetadataImage(
            topics={topic.name: topic for topic in topics},
            topic_names={topic.topic_id: topic.name for topic in topics},
        )
        self._read_up_to: dict[int, int] = {}

    async def start(self) -> None:
        surroundings = Surroundings(disk=self._disk, clock=self.clock, random_source=self.random_source)
        self.logs = LogManager([self._directory], surroundings)
        self.flushes = HeldFlushes(self.logs, InlineWorkers(), failed=no_failure)
        self.partitions = Partitions(
            broker_id=BROKER_ID,
            logs=self.logs,
            group_commit=self.flushes,
            peers=Alone(),
            settings_of=lambda _: default_settings(),
        )
        self.groups = GroupCoordinator(
            config=self.config,
            consumer_config=lambda: self.consumer_config,
            share_config=lambda: read_settings(ShareGroupConfig, self.settings),
            streams_config=lambda: read_settings(StreamsGroupConfig, self.settings),
            settings=lambda: self.settings,
            partitions=self.partitions,
            image=lambda: self.image,
            clock=self.clock,
            random_source=self.random_source,
        )
        self.partitions.start(self.image, ForwardedPartitions(self.groups))
        await self.groups.start()
        await self.groups.loaded()

    def stop(self) -> None:
        self.groups.stop()
        self.logs.close(clean=True)

    def group_machine(self, index: int = 0) -> GroupMachine:
        """Return the state behind the interface."""
        return self.groups._runtime.active(index).machine

    def offsets_partition(self, index: int = 0) -> Partition:
        return self.partitions.find(GROUP_OFFSETS_TOPIC, index)

    def delete_topic(self, name: str) -> None:
        self._have_topics({key: topic for key, topic in self.image.topics.items() if key != name})

    def change_topic(self, topic: TopicImage) -> None:
        self._have_topics({**self.image.topics, topic.name: topic})

    def _have_topics(self, topics: dict[str, TopicImage]) -> None:
        names = {topic.topic_id: topic.name for topic in topics.values()}
        changed = dataclasses.replace(self.image, topics=topics, topic_names=names, offset=self.image.offset + 1)
        old, self.image = self.image, changed
        delta = MetadataDelta(old, self.image)
        self.partitions.apply(delta)
        if delta.has_new_topics():
            self.groups.topics_created(self.image.offset)

    def reject_appends(self, *, reject: bool) -> None:
        """Reject appends to the partition: min.insync.replicas exceeds the number of replicas."""
        for partition in self.partitions:
            replicas = 2 if reject else 1
            partition.image = dataclasses.replace(partition.image, replicas=(BROKER_ID, BROKER_ID + 1))
            partition.log.update_config(dataclasses.replace(partition.log.config, min_insync_replicas=replicas))

    def hold_commits(self) -> None:
        """Keep appended records uncommitted from now on, as a lagging replica does."""
        self.flushes.is_held = True
        log = self.offsets_partition().log
        log.update_config(dataclasses.replace(log.config, flush_messages=1))

    def release_commits(self) -> None:
        """Commit all appended records."""
        self.flushes.is_held = False
        partition = self.offsets_partition()
        log = partition.log
        log.update_config(dataclasses.replace(log.config, flush_messages=LogConfig().flush_messages))
        log.flush()
        partition.flushed()

    def new_records(self, index: int = 0) -> Iterator[GroupRecord]:
        """Yield the records stored since the last call."""
        log = self.offsets_partition(index).log
        offset = self._read_up_to.get(index, 0)
        self._read_up_to[index] = log.log_end_offset
        while offset < log.log_end_offset:
            for record in decode_all(log.read(offset, 1 << 20)):
                if record.offset >= offset:
                    offset = record.offset + 1
                    assert record.key is not None
                    yield decode_group_record(record.key, record.value)

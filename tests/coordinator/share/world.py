"""Share coordinator over real logs in a directory, with virtual time; it can be stopped and started again."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.group_commit import FlushablePartition, GroupCommit
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.topic_names import SHARE_STATE_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.batches import StateBatch
from kwire.coordinator.share.config import ShareStateConfig
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.machine import ShareMachine
from kwire.coordinator.share.records import ShareRecord, decode_share_record
from kwire.coordinator.share.state import ShareState
from kwire.coordinator.share_coordinator import ShareCoordinator
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.protocol.records import decode_all, iterate_headers
from tests.cluster.world import InlineWorkers
from tests.coordinator.world import BROKER_ID, no_failure, topic_image
from tests.log.support import FixedChance
from tests.support.metadata import Alone
from tests.virtual_loop import VirtualClock

TOPIC_ID, OTHER_ID = UUID(int=101), UUID(int=102)
KEY = ShareKey("g", TOPIC_ID, 0)


class _Listener(PartitionListener):
    def __init__(self, coordinator: ShareCoordinator) -> None:
        self._coordinator = coordinator

    def role_changed(self, partition: Partition) -> None:
        self._coordinator.role_changed(partition)

    def partition_removed(self, partition: Partition) -> None:
        self._coordinator.partition_removed(partition)

    def topic_deleted(self, topic: TopicImage) -> None:
        self._coordinator.topic_deleted(topic)


class HeldFlushes(GroupCommit):
    """Group commit whose flushes a test can hold: records then stay uncommitted."""

    is_held = False

    def request(self, partition: FlushablePartition) -> None:
        if not self.is_held:
            super().request(partition)


class ShareWorld:
    """Parts of a broker that its share coordinator needs."""

    def __init__(self, directory: Path | str, loop: asyncio.AbstractEventLoop, **config: Any) -> None:
        self.clock = VirtualClock(loop)
        self.config = ShareStateConfig(**config)
        self._directory = str(directory)
        topics = [topic_image(SHARE_STATE_TOPIC, 100, 1), topic_image("t", 101, 3), topic_image("u", 102, 2)]
        self.image = MetadataImage(
            topics={topic.name: topic for topic in topics},
            topic_names={topic.topic_id: topic.name for topic in topics},
        )
        self._read_up_to = 0

    async def start(self) -> None:
        surroundings = Surroundings(disk=RealDisk(), clock=self.clock, random_source=FixedChance())
        self.logs = LogManager([self._directory], surroundings)
        self.flushes = HeldFlushes(self.logs, InlineWorkers(), failed=no_failure)
        self.partitions = Partitions(
            broker_id=BROKER_ID,
            logs=self.logs,
            group_commit=self.flushes,
            peers=Alone(),
            settings_of=lambda _: default_settings(),
        )
        self.logs.load_all(lambda topic: self.partitions.config_of(topic, self.image))
        self.coordinator = ShareCoordinator(
            config=self.config, partitions=self.partitions, image=lambda: self.image, clock=self.clock
        )
        self.partitions.start(self.image, _Listener(self.coordinator))
        await self.coordinator.start()
        await self.coordinator.loaded()

    def stop(self) -> None:
        self.coordinator.stop()
        self.logs.close(clean=True)

    async def restart(self) -> None:
        self.stop()
        await self.start()

    @property
    def machine(self) -> ShareMachine:
        return self.coordinator._runtime.active(0).machine

    @property
    def partition(self) -> Partition:
        return self.partitions.find(SHARE_STATE_TOPIC, 0, can_follow=True)

    def state(self, key: ShareKey = KEY) -> ShareState:
        return self.machine.partitions[key].state

    # --- requests

    def initialise(self, key: ShareKey = KEY, *, epoch: int = 0, start: int = -1) -> Answer[None]:
        return self.coordinator.initialise(key, state_epoch=epoch, start_offset=start)

    def write(
        self, *batches: tuple[int, int, int, int], key: ShareKey = KEY, start: int = -1, **more: int
    ) -> Answer[None]:
        fields = {"state_epoch": 0, "leader_epoch": 0, "delivery_complete_count": 0} | more
        return self.coordinator.write(
            key, start_offset=start, batches=[StateBatch(*each) for each in batches], **fields
        )

    # --- faults and metadata

    def hold_commits(self) -> None:
        """Keep appended records uncommitted from now on, as a lagging replica does."""
        self.flushes.is_held = True
        self._flush_after(1)

    def release_commits(self) -> None:
        """Commit all appended records."""
        self.flushes.is_held = False
        self._flush_after(1 << 60)
        self.partition.log.flush()
        self.partition.flushed()

    def _flush_after(self, messages: int) -> None:
        log = self.partition.log
        log.update_config(dataclasses.replace(log.config, flush_messages=messages))

    def reject_appends(self, *, reject: bool) -> None:
        """Reject appends to the partition: min.insync.replicas exceeds the number of replicas."""
        partition = self.partition
        partition.image = dataclasses.replace(partition.image, replicas=(BROKER_ID, BROKER_ID + 1))
        log = partition.log
        log.update_config(dataclasses.replace(log.config, min_insync_replicas=2 if reject else 1))

    def lead(self, leader: int) -> None:
        """Make another broker, or this one, lead __share_group_state-0."""
        topic = self.image.topics[SHARE_STATE_TOPIC]
        (before,) = topic.partitions
        epoch = before.leader_epoch + 1
        after = dataclasses.replace(
            before,
            replicas=(BROKER_ID, BROKER_ID + 1),
            directories=(UUID(int=9), UUID(int=9)),
            isr=(leader,),
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=epoch,
        )
        self._have_topics({**self.image.topics, topic.name: dataclasses.replace(topic, partitions=(after,))})

    def delete_topic(self, name: str) -> None:
        self._have_topics({key: topic for key, topic in self.image.topics.items() if key != name})

    def _have_topics(self, topics: dict[str, TopicImage]) -> None:
        names = {topic.topic_id: topic.name for topic in topics.values()}
        old, self.image = self.image, dataclasses.replace(self.image, topics=topics, topic_names=names)
        self.partitions.apply(MetadataDelta(old, self.image))

    # --- the log

    def records(self) -> list[tuple[int, ShareRecord]]:
        """Return all records of the log, with their offsets."""
        return list(self._records_from(self.partition.log.log_start_offset))

    def new_records(self) -> list[ShareRecord]:
        """Return the records stored since the last call."""
        found = [record for _, record in self._records_from(self._read_up_to)]
        self._read_up_to = self.partition.log.log_end_offset
        return found

    def batch_sizes(self) -> list[int]:
        """Return the number of records in each batch of the log."""
        log = self.partition.log
        data = log.read(log.log_start_offset, 1 << 24)
        return [header.record_count for _, header in iterate_headers(data)]

    def _records_from(self, offset: int) -> Iterator[tuple[int, ShareRecord]]:
        log = self.partition.log
        while offset < log.log_end_offset:
            for record in decode_all(log.read(offset, 1 << 20)):
                if record.offset >= offset:
                    offset = record.offset + 1
                    yield record.offset, decode_share_record(cast("bytes", record.key), record.value)

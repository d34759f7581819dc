"""Both coordinators, the transaction verifier and the marker writer, over real logs in a directory, with virtual time.

Requests go through the handlers of kwire.server.apis, without a connection and without authorization. The whole can be
stopped and started again; flushes can be held, and partitions can reject appends.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kwire.chunks import whole
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import read_settings
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.security.authorizer import AllowEverything
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.share.settings import ShareGroupConfig
from kwire.coordinator.group.streams.settings import StreamsGroupConfig
from kwire.coordinator.group_coordinator import GroupConfig, GroupCoordinator
from kwire.coordinator.markers import LocalMarkerWriter, Outcomes, TransactionMarker
from kwire.coordinator.transaction.machine import TransactionMachine
from kwire.coordinator.transaction.records import TransactionRecord, decode_transaction_record
from kwire.coordinator.transaction.transaction import TopicPartition
from kwire.coordinator.transaction.verifier import TransactionVerifier
from kwire.coordinator.transaction_coordinator import TransactionConfig, TransactionCoordinator
from kwire.log.disk import Disk, RealDisk
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.protocol.records import decode_all
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import Services
from tests.cluster.world import InlineWorkers
from tests.coordinator.world import BROKER_ID, no_failure, topic_image
from tests.log.support import FixedChance
from tests.support.listeners import ForwardedPartitions
from tests.support.metadata import Alone
from tests.virtual_loop import VirtualClock

FIRST_PRODUCER_ID = 1000
TOPICS = ((GROUP_OFFSETS_TOPIC, 1), (TRANSACTION_STATE_TOPIC, 1), ("t", 2), ("u", 2))


class HeldWorkers(InlineWorkers):
    """Workers whose flushes can be held repeatedly."""

    def hold(self) -> None:
        self.held = True
        self._gate.clear()


class InOrder:
    """Markers of one broker in the order of partition names, because the order of a set differs between processes."""

    def __init__(self, writer: LocalMarkerWriter) -> None:
        self._writer = writer

    def write(
        self, leader_id: int, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Answer[Outcomes]:
        return self._writer.write(marker, sorted(partitions))


class ProducerIdBlock:
    """Sequential producer ids; a restart of the world does not reuse them."""

    def __init__(self) -> None:
        self.next_id = FIRST_PRODUCER_ID

    async def next(self) -> int:
        self.next_id += 1
        return self.next_id - 1


class TransactionWorld:
    """Parts of a broker that its coordinators need, and a way to send requests to them."""

    def __init__(
        self, directory: Path | str, loop: asyncio.AbstractEventLoop, disk: Disk | None = None, **settings: Any
    ) -> None:
        """Create a world; settings are the broker's, by their dotted names."""
        self.clock = VirtualClock(loop)
        self.config = TransactionConfig()
        self.version = 2
        self.verifies = True
        self.producer_ids = ProducerIdBlock()
        self.workers = HeldWorkers()
        self._disk = disk or RealDisk()
        self._settings = default_settings() | settings
        self._directory = str(directory)
        topics = [topic_image(name, 100 + number, count) for number, (name, count) in enumerate(TOPICS)]
        self.image = MetadataImage(
            topics={topic.name: topic for topic in topics},
            topic_names={topic.topic_id: topic.name for topic in topics},
        )
        self._read_up_to = 0

    # --- start and stop

    async def start(self) -> None:
        names = self._disk.list(self._directory) if self._disk.is_directory(self._directory) else []
        # Each rename of a directory took a name from the sequence, also in a start that a crash ended.
        drawn = sum(name.endswith(("-delete", "-stray")) for name in names)
        surroundings = Surroundings(disk=self._disk, clock=self.clock, random_source=FixedChance(drawn=drawn))
        self.logs = LogManager([self._directory], surroundings)
        self.group_commit = GroupCommit(self.logs, self.workers, failed=no_failure)
        self.partitions = Partitions(
            broker_id=BROKER_ID,
            logs=self.logs,
            group_commit=self.group_commit,
            peers=Alone(),
            settings_of=lambda _: self._settings,
        )
        self.logs.load_all(lambda topic: self.partitions.config_of(topic, self.image))
        self.groups = GroupCoordinator(
            config=GroupConfig(),
            consumer_config=lambda: read_settings(ConsumerGroupConfig, self._settings),
            share_config=lambda: read_settings(ShareGroupConfig, self._settings),
            streams_config=lambda: read_settings(StreamsGroupConfig, self._settings),
            settings=lambda: self._settings,
            partitions=self.partitions,
            image=lambda: self.image,
            clock=self.clock,
            random_source=FixedChance(),
        )
        self.markers = LocalMarkerWriter(partitions=self.partitions, offsets=self.groups, clock=self.clock)
        self.transactions = TransactionCoordinator(
            config=self.config,
            partitions=self.partitions,
            image=lambda: self.image,
            clock=self.clock,
            next_producer_id=self.producer_ids.next,
            version=lambda: self.version,
            marker_writer=InOrder(self.markers),
        )
        self.partitions.start(self.image, ForwardedPartitions(self.groups, self.transactions))
        await self.groups.start()
        await self.transactions.start()
        self.transaction_verifier = TransactionVerifier(
            coordinator=self.transactions, config=self.config, clock=self.clock, verifies=lambda: self.verifies
        )
        await self.groups.loaded()
        await self.transactions.loaded()

    def stop(self) -> None:
        self.kill()
        self.logs.close(clean=True)

    async def shut_down(self) -> None:
        """Stop as a broker does: wait for flushes."""
        self.kill()
        await self.group_commit.close()
        self.logs.close(clean=True)

    def kill(self) -> None:
        """Stop without any further action; the logs stay as they are."""
        self.transaction_verifier.stop()
        self.transactions.stop()
        self.groups.stop()

    # --- requests

    async def ask(self, api: Api, request: Any, version: int, *, client_id: str = "client") -> Any:
        """Return the response of the API's handler."""
        client = SimpleNamespace(
            peer_host="127.0.0.1", peer_port=1, principal="User:ANONYMOUS", client_software=("", "")
        )
        services = cast("Services", self._services())
        context = RequestContext(services, client, "PLAINTEXT", api.key, version, 0, client_id)
        return await whole(api.handle(request, context))

    def _services(self) -> SimpleNamespace:
        return SimpleNamespace(
            authorizer=AllowEverything(),
            audit=None,
            image=self.image,
            partitions=self.partitions,
            groups=self.groups,
            transactions=self.transactions,
            transaction_verifier=self.transaction_verifier,
            markers=self.markers,
            producer_ids=self.producer_ids,
        )

    # --- events

    def partition(self, name: str) -> Partition:
        """Return a partition by a name such as t-0."""
        topic, _, index = name.rpartition("-")
        return self.partitions.find(topic, int(index))

    def delete_topic(self, name: str) -> None:
        topics = {key: topic for key, topic in self.image.topics.items() if key != name}
        old, self.image = self.image, dataclasses.replace(self.image, topics=topics)
        self.partitions.apply(MetadataDelta(old, self.image))

    def reject_appends(self, name: str, *, reject: bool) -> None:
        """Reject appends to a partition: min.insync.replicas exceeds the number of replicas."""
        partition = self.partition(name)
        partition.image = dataclasses.replace(partition.image, replicas=(BROKER_ID, BROKER_ID + 1))
        config = dataclasses.replace(partition.log.config, min_insync_replicas=2 if reject else 1)
        partition.log.update_config(config)

    # --- queries

    def group_offset(self, group_id: str, topic: str, index: int) -> int | None:
        """Return the committed offset of a group."""
        found = self.groups._runtime.active(0).machine.offsets.find(group_id, topic, index)
        return None if found is None else found.offset

    def machine(self) -> TransactionMachine:
        """Return the state behind the interface."""
        return self.transactions._runtime.active(0).machine

    def records(self, offset: int = 0) -> Iterator[TransactionRecord]:
        """Yield the records stored from an offset on."""
        log = self.partition(f"{TRANSACTION_STATE_TOPIC}-0").log
        while offset < log.log_end_offset:
            for record in decode_all(log.read(offset, 1 << 20)):
                if record.offset >= offset:
                    offset = record.offset + 1
                    assert record.key is not None
                    yield decode_transaction_record(record.key, record.value)

    def new_records(self) -> Iterator[TransactionRecord]:
        """Yield the records stored since the last call."""
        for record in self.records(self._read_up_to):
            self._read_up_to += 1
            yield record

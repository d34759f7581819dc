"""Workloads on a whole node: formatting, metadata changes, and topics that are created, filled, deleted and created
again.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.plans.topics import CreatedTopic, NewTopic
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.prepared_records import PreparedRecords
from kwire.cluster.raft.metadata_log import MetadataLog, Written
from kwire.cluster.raft.raft_log import BATCH_BYTES_MAX
from kwire.protocol.records import Record, encode_batch
from kwire.server.node.storage import Storage
from tests.crash.checks import problems_of
from tests.crash.disk import RecordingDisk, Tree
from tests.crash.ledger import Expectation, Ledger
from tests.crash.node import CONFIG, Node, start_node
from tests.log.support import NOW_MS
from tests.support.metadata import allocate_producer_ids
from tests.virtual_loop import virtual_loop

TOPIC = "orders"
START: Tree = {"data": {}}
LATER_MS = 3_600_000
ACKS_ALL = -1
WEIGHTS: Mapping[str, Mapping[str, int]] = {
    "formatting": {"restart": 1, "kill": 1},
    "metadata": {"other_topic": 5, "both": 3, "drop_other": 3, "producer_ids": 2, "kill": 2, "restart": 1},
    "recreation": {"recreate": 4, "at_once": 3, "append": 6, "flush": 2, "checkpoint": 2, "kill": 2, "restart": 1},
}
STEPS: Mapping[str, int] = {"formatting": 2, "metadata": 12, "recreation": 12}


class Known(NamedTuple):
    """Metadata that a client may have received."""

    topics: tuple[tuple[str, uuid.UUID, int], ...]
    configs: tuple[tuple[str, str], ...]
    next_producer_id: int


def known(image: MetadataImage) -> Known:
    topics = tuple(sorted((topic.name, topic.topic_id, len(topic.partitions)) for topic in image.topics.values()))
    configs = tuple(
        sorted(
            (f"{name}.{key}", str(value))
            for (kind, name), values in image.configs.items()
            if kind == int(ConfigResourceType.TOPIC)
            for key, value in values.items()
        )
    )
    return Known(topics, configs, image.next_producer_id)


class NodeScript:
    """Random script on a node that begins with an empty disk."""

    def __init__(self, name: str, seed: int) -> None:
        self.start = START
        self._disk = RecordingDisk(START)
        self.operations = self._disk.operations
        self._random_source = random.Random(f"{name} {seed}")
        self._seed = seed
        self._ledger = Ledger(self.operations)
        self._cluster_id: tuple[int, str] | None = None
        """(operation since which it holds, required cluster id)."""
        self._images: list[tuple[int, Known]] = []
        """(operation since which it may be found, metadata)."""
        self._answered: list[tuple[int, int]] = []
        """(operation since which it holds, index of the image that must be found)."""
        self._others: list[str] = []
        self._count = self._starts = 0
        with virtual_loop() as loop:
            loop.run_until_complete(self._run(WEIGHTS[name], STEPS[name]))

    async def _run(self, weights: Mapping[str, int], steps: int) -> None:
        await self._start()
        if "append" in weights:
            await self._create()
        for action in self._random_source.choices(list(weights), list(weights.values()), k=steps):
            call: Callable[[], Awaitable[None]] = getattr(self, f"_{action}")
            await call()

    # --- start and stop

    async def _start(self) -> None:
        self._starts += 1
        self._node: Node = await start_node(
            self._disk, seed=100 * self._seed + self._starts, opened=self._storage_opened, leading=self._watch_appends
        )
        self._promise()

    def _storage_opened(self, storage: Storage) -> None:
        if self._cluster_id is None:
            self._cluster_id = len(self.operations), storage.cluster_id
        assert self._cluster_id[1] == storage.cluster_id

    def _watch_appends(self, log: MetadataLog) -> None:
        append = log.append

        def noted(records: Sequence[Any] | PreparedRecords, *, bytes_max: int = BATCH_BYTES_MAX) -> Written:
            since = len(self.operations) + 1
            written = append(records, bytes_max=bytes_max)
            self._images.append((since, known(log.newest_image)))
            return written

        log.append = noted  # type: ignore[method-assign]

    def _promise(self) -> None:
        self._answered.append((len(self.operations), len(self._images) - 1))

    async def _kill(self) -> None:
        self._disk.kill()
        await self._start()

    async def _restart(self) -> None:
        node = self._node
        partition = node.partitions.get(TOPIC, 0)
        await node.stop()
        if partition is not None:
            self._ledger.flushed(partition.log.log_end_offset)
        self._disk.kill()
        await self._start()

    # --- metadata

    async def _make(self, *names: str) -> list[CreatedTopic]:
        configs = {"flush.messages": "1"} if self._random_source.randrange(2) else {}
        wishes = [NewTopic(name=name, num_partitions=1, replication_factor=1, configs=configs) for name in names]
        made = await self._node.controller.create_topics(wishes, validate_only=False)
        self._promise()
        assert all(isinstance(each, CreatedTopic) for each in made), made
        return [each for each in made if isinstance(each, CreatedTopic)]

    async def _drop(self, name: str) -> None:
        node = self._node
        await node.controller.delete_topics([node.metadata_log.newest_image.topics[name]])
        self._promise()

    async def _other_topic(self) -> None:
        self._count += 1
        self._others.append(f"other-{self._count}")
        await self._make(self._others[-1])

    async def _both(self) -> None:
        self._count += 2
        names = [f"other-{self._count - 1}", f"other-{self._count}"]
        self._others += names
        await self._make(*names)

    async def _drop_other(self) -> None:
        if self._others:
            await self._drop(self._others.pop(self._random_source.randrange(len(self._others))))

    async def _producer_ids(self) -> None:
        broker = self._node.metadata_log.image.brokers[CONFIG.node_id]
        await allocate_producer_ids(self._node.metadata_log, broker.broker_id, broker.broker_epoch)
        self._promise()

    # --- the topic with data

    async def _create(self) -> None:
        since = self._ledger.time
        (made,) = await self._make(TOPIC)
        self._ledger.creates(made.topic_id, since)

    async def _recreate(self) -> None:
        self._ledger.deletes(self._ledger.time)
        await self._drop(TOPIC)
        self._ledger.deleted()
        await self._create()

    async def _at_once(self) -> None:
        """Delete a topic and create it again before the deletion is durable."""
        node = self._node
        since = self._ledger.time
        self._ledger.deletes(since)
        topic = node.metadata_log.newest_image.topics[TOPIC]
        deletion = node.controller.delete_topics([topic])
        creation = self._create_later(since)
        await asyncio.gather(deletion, creation)
        self._promise()

    async def _create_later(self, since: int) -> None:
        requested = NewTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs={})
        (made,) = await self._node.controller.create_topics([requested], validate_only=False)
        assert isinstance(made, CreatedTopic)
        self._ledger.replaced(made.topic_id, since)

    async def _append(self) -> None:
        partition = self._node.partitions.get(TOPIC, 0)
        assert partition is not None
        self._count += 1
        value = b"%d " % self._count + self._random_source.randbytes(self._random_source.choice((5, 100, 600)))
        since = self._ledger.time
        count = len(self.operations)
        partition.append(encode_batch([Record(value=value, timestamp=NOW_MS)]), ACKS_ALL)
        self._ledger.appends(self._first_written(count), since)
        while partition.waits_for_flush:
            await asyncio.sleep(0)
        if partition.log.config.flush_messages == 1:
            assert partition.high_watermark == partition.log.log_end_offset
            self._ledger.flushed(partition.log.log_end_offset)

    def _first_written(self, count: int) -> bytes:
        """Return the first write after `count` operations: the batch, even if an epoch that begins with it follows."""
        return next(each.data for each in self.operations[count:] if each.kind == "write")

    async def _flush(self) -> None:
        partition = self._node.partitions.get(TOPIC, 0)
        assert partition is not None
        partition.log.flush()
        self._ledger.flushed(partition.log.log_end_offset)

    async def _checkpoint(self) -> None:
        partition = self._node.partitions.get(TOPIC, 0)
        assert partition is not None
        self._node.logs.directories.checkpoint({(TOPIC, 0): partition.high_watermark})

    # --- checks

    def check(self, disk: RecordingDisk, at: int, probe: int) -> list[str]:
        with virtual_loop() as loop:
            return loop.run_until_complete(self._check(disk, at, probe))

    async def _check(self, disk: RecordingDisk, at: int, probe: int) -> list[str]:
        (directory,) = CONFIG.log_dirs
        names = len(disk.list(directory)) if disk.is_directory(directory) else 0  # random names differ then
        node = await start_node(disk, seed=100 * (self._seed + 1000 * names) + 99, now_ms=NOW_MS + LATER_MS)
        problems = []
        if (
            self._cluster_id is not None
            and at >= self._cluster_id[0]
            and node.storage.cluster_id != self._cluster_id[1]
        ):
            problems.append("the directory was formatted again, although it had been taken into use")
        found = known(node.metadata_log.image)
        promised = max((index for since, index in self._answered if since <= at), default=-1)
        possible = [image for since, image in self._images[max(promised, 0) :] if since <= at]
        if promised >= 0 and found not in possible:
            problems.append(f"the metadata are {found}, promised was {self._images[promised][1]}")
        return problems or self._partition_problems(node, self._ledger.at(at), disk, probe)

    def _partition_problems(self, node: Node, expected: Expectation, disk: RecordingDisk, probe: int) -> list[str]:
        topic = node.metadata_log.image.topics.get(TOPIC)
        partition = node.partitions.get(TOPIC, 0)
        if topic is None:
            return [] if partition is None else ["a partition is served whose topic is not in the metadata"]
        lives = [life for life in expected.lives if life.topic_id == topic.topic_id]
        log = None if partition is None else partition.log
        return list(problems_of(log, Expectation(lives=lives, may_be_missing=False), disk, probe=probe))

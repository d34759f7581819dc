"""Data directories with random partitions: a broker creates the topics, and kwire's log classes fill them."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from compat_tests.harness.process import BrokerProcess
from compat_tests.raw.peer import Peer
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.log_directory import previous_broker_epoch
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings, open_log
from kwire.protocol.messages.metadata_records import PartitionChangeRecord, encode_metadata_record
from kwire.protocol.records import Record, encode_batch
from kwire.seams import SystemRandomSource
from tests.log.random_directories import KINDS, LAST_EPOCH, Writer, random_config
from tests.log.support import ManualClock

NODE = 1
DAY_MS = 24 * 3600 * 1000
METADATA = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition of the comparison."""

    topic: str
    index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


def random_partitions(count: int) -> list[Partition]:
    """Return `count` partitions, all kinds in turn."""
    names = list(KINDS)
    return [Partition(names[at % len(names)], at // len(names)) for at in range(count)]


def create_topics(broker: BrokerProcess, partitions: list[Partition]) -> dict[str, object]:
    """Create the topics; return their ids by name. The settings prevent changes of a log in the background."""
    with Peer(broker.bootstrap) as peer:
        return {
            topic: peer.create_topic(
                topic,
                sum(each.topic == topic for each in partitions),
                retention_ms=-1,
                cleanup_policy=",".join(KINDS[topic].settings.get("cleanup_policy", ("delete",))),
                min_compaction_lag_ms=365 * DAY_MS,
                message_timestamp_type=KINDS[topic].settings.get("message_timestamp_type", "CreateTime"),
            )
            for topic in sorted({each.topic for each in partitions})
        }


def raise_leader_epochs(data: Path, topic_ids: dict[str, object], partitions: list[Partition]) -> None:
    """Write elections of the only replica to the metadata log, so that the epochs of the random partitions are old."""
    log = open_log(
        str(data / f"{METADATA}-0"),
        topic=METADATA,
        partition=0,
        config=LogConfig(),
        surroundings=surroundings(ManualClock(now_ms())),
        was_clean_shutdown=True,
    )
    timestamp = now_ms()  # the same timestamp in all records of a batch, or Kafka rejects the log
    for _ in range(LAST_EPOCH + 1):
        elections = [
            PartitionChangeRecord(topic_id=topic_ids[each.topic], partition_id=each.index, leader=NODE, isr=[NODE])
            for each in partitions
        ]
        epoch = log.leader_epochs.latest_epoch
        batch = encode_batch(
            [Record(value=encode_metadata_record(each), timestamp=timestamp) for each in elections],
            base_offset=log.log_end_offset,
            partition_leader_epoch=epoch,
        )
        log.append(batch, leader_epoch=epoch, origin=AppendOrigin.RAFT_LEADER)
    log.flush()
    log.close(clean=False)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def surroundings(clock: ManualClock) -> Surroundings:
    return Surroundings(disk=RealDisk(), clock=clock, random_source=SystemRandomSource(1))


def fill(data: Path, partitions: list[Partition], *, seed: int, steps: int, clean: bool) -> None:
    """Run `steps` random operations on each partition, then stop cleanly or as after a kill.

    Each partition has its own seed. Its last records are some hours old, so that nothing has expired yet.
    """
    clock = ManualClock(now_ms())
    broker_epoch = previous_broker_epoch(RealDisk(), [str(data)])
    manager = LogManager([str(data)], surroundings(clock))
    manager.load_all(lambda topic: LogConfig(**KINDS[topic].settings))
    begun_ms = clock.now_ms - (DAY_MS // 3 if clean else DAY_MS // 6)
    for number, partition in enumerate(partitions):
        random_source = random.Random(f"{seed} {number} {clean}")
        log = manager.get(partition.topic, partition.index)
        clock.now_ms = begun_ms
        log.update_config(random_config(KINDS[partition.topic], random_source))
        writer = Writer(log, KINDS[partition.topic], clock, random_source)
        writer.fill(steps)
        manager.directories.remove_files([path for each in writer.pending for path in each.paths])
        if not clean and random_source.random() < 0.3:
            # Stored offsets may be older than the log's state, but never newer.
            manager.directories.checkpoint({})
    high_watermarks = {(log.topic, log.partition): log.log_end_offset for log in manager.logs()}
    manager.close(clean=clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks)

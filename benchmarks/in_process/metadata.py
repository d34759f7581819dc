"""Benchmark of single metadata changes on a broker with few and with many partitions; prints one JSON object.

Run it as a script with `python -P SIZE ...`, so that the installed kwire is measured. For each size it prints the
median microseconds of an ISR change, a topic creation and a configuration change: applying the records, finding the
differences, and following them with the partitions of the broker. Other brokers have the replicas, except those of the
changed topic.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from uuid import UUID

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.partitions import Partitions
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.protocol.messages.metadata_records import ConfigRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from kwire.seams import SystemClock, SystemRandomSource, ThreadWorkers
from kwire.server.settings.config import make_config

HERE, ELSEWHERE = 1, 2
CHANGES = 300
DIRECTORY_ID = UUID(int=1 << 100)


class Peers:
    """Followers that are always in sync."""

    broker_id = HERE

    def broker_epoch(self) -> int:
        return 1

    def now_ms(self) -> float:
        return 0.0

    def lag_max_ms(self) -> float:
        return 30_000.0

    def may_join(self, broker_id: int, broker_epoch: int) -> bool:
        return True

    def lives(self, broker_id: int) -> bool:
        return True

    def is_superseded(self, broker_id: int, broker_epoch: int) -> bool:
        return False

    def send_proposal(self, partition: Partition) -> None:
        pass


def topic_records(number: int, replicas: list[int]) -> list[Any]:
    topic_id = SystemRandomSource().uuid()
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        directories=[DIRECTORY_ID] * len(replicas),
    )
    return [TopicRecord(name=f"topic-{number}", topic_id=topic_id), partition]


def isr_change(image: MetadataImage, number: int) -> list[Any]:
    isr = [HERE] if number % 2 else [HERE, ELSEWHERE]
    return [PartitionChangeRecord(topic_id=image.topics["topic-0"].topic_id, partition_id=0, isr=isr)]


def creation(image: MetadataImage, _: int) -> list[Any]:
    return topic_records(len(image.topics), [ELSEWHERE])


def config_change(_: MetadataImage, number: int) -> list[Any]:
    topic = ConfigResourceType.TOPIC
    return [ConfigRecord(resource_type=topic, resource_name="topic-0", name="retention.ms", value=str(1000 + number))]


KINDS: dict[str, Callable[[MetadataImage, int], list[Any]]] = {
    "ISR change": isr_change,
    "topic creation": creation,
    "config change": config_change,
}


def fail(error: BaseException) -> NoReturn:
    raise error


def measure(size: int, directory: str) -> Iterator[tuple[str, float]]:
    surroundings = Surroundings(disk=RealDisk(), clock=SystemClock(), random_source=SystemRandomSource())
    logs = LogManager([directory], surroundings)
    settings = make_config({}).parsed
    partitions = Partitions(
        broker_id=HERE,
        logs=logs,
        group_commit=GroupCommit(logs, ThreadWorkers(), failed=fail),
        peers=Peers(),
        settings_of=lambda _: settings,
    )
    records = topic_records(0, [HERE, ELSEWHERE])
    for number in range(1, size):
        records += topic_records(number, [ELSEWHERE])
    image = MetadataImage().apply(records, offset=len(records), epoch=1)
    partitions.start(image, PartitionListener())
    for kind, change in KINDS.items():
        taken = []
        for number in range(CHANGES):
            changes = change(image, number)
            started = time.perf_counter_ns()
            changed = image.apply(changes, offset=image.offset + len(changes), epoch=1)
            partitions.apply(MetadataDelta(image, changed))
            taken.append((time.perf_counter_ns() - started) / 1000)
            image = changed
        yield kind, statistics.median(taken)
    logs.close(clean=True)


def main() -> None:
    figures: dict[str, dict[str, float]] = {}
    for size in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as directory:
            figures[str(size)] = dict(measure(size, directory))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

"""Two brokers with the same topics and topic ids, on which the order of Kafka's hash maps and so assignments depend."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat_tests.differential.wire import Side
from compat_tests.group_script.topics import CHANGELOGS, PARTITIONS
from compat_tests.harness.brokers import started_broker
from compat_tests.log_format.taking_over import on_copy_of
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.requests import group_configs

FROM_THE_START = "share-2"
"""Share group that reads its topics from the first record; others read from the latest one."""
ASSIGNED_AT_ONCE: Mapping[str, str] = {
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.min.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
"""Settings with which each heartbeat sees the newest assignment."""
SETTINGS: Mapping[str, str] = {
    # Members are there until they leave, and records stay acquired until they are acknowledged.
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
    "group.share.max.session.timeout.ms": "3600000",
    "group.share.session.timeout.ms": "3600000",
    "group.streams.max.session.timeout.ms": "3600000",
    "group.streams.session.timeout.ms": "3600000",
    "group.share.max.record.lock.duration.ms": "3600000",
    "group.share.record.lock.duration.ms": "3600000",
    **ASSIGNED_AT_ONCE,
    "group.consumer.max.size": "4",
    "auto.create.topics.enable": "false",
}


@contextmanager
def pair(directory: Path, first: str = "kwire") -> Iterator[tuple[str, str]]:
    """Start a broker and Apache Kafka on copies of one directory, and yield their addresses."""
    made = directory / "made"
    create_in(made)
    with ExitStack() as running:
        brokers = [
            on_copy_of(made / "data", name, directory / f"{number}-{name}")
            for number, name in enumerate((first, "kafka"))
        ]
        for broker in brokers:
            broker.more_settings = SETTINGS
            running.callback(broker.stop)
            broker.start()
        yield brokers[0].bootstrap, brokers[1].bootstrap


def create_in(directory: Path) -> None:
    """Create the topics and settings of a script in a new directory."""
    directory.mkdir(parents=True)
    with started_broker("kwire", directory) as maker:
        _create(Side(name="kwire", bootstrap=maker.bootstrap))


def _create(side: Side) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in {**PARTITIONS, **CHANGELOGS}.items()
    ]
    made = side.ask(CreateTopicsRequest(topics=topics), 7).topics
    assert not any(each.error_code for each in made), made
    (altered,) = side.ask(group_configs(FROM_THE_START, {"share.auto.offset.reset": "earliest"}), 1).responses
    assert not altered.error_code, altered

"""Compaction in a whole broker, which runs in a thread other than the main one, with its real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kwire.protocol.records import decode_all
from kwire.server.compaction.rounds import ProcessRounds
from tests.log.compaction.support import keyed
from tests.support.requests import create_topic, fetch, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

SETTINGS = {"log.cleaner.backoff.ms": "20"}
TOPIC_SETTINGS: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}


def fill(broker: RunningBroker, topic: str) -> None:
    """Store ten records of two keys in a closed, durable segment."""
    with broker.client() as client:
        for index in range(10):
            produce(client, topic, bytes(keyed((b"%d" % (index % 2), b"x"))))
    log = broker.call(lambda: broker.server.services.partitions.find(topic, 0).log)
    broker.call(log.roll)
    broker.call(log.flush)


def offsets(broker: RunningBroker, topic: str) -> list[int]:
    with broker.client() as client:
        return [record.offset for record in decode_all(fetch(client, topic).records or b"")]


def rounds_of(broker: RunningBroker) -> ProcessRounds:
    cleaner = broker.server._replicas.cleaner
    assert cleaner is not None
    rounds = cleaner._parts.rounds
    assert isinstance(rounds, ProcessRounds)
    return rounds


def test_a_topic_is_compacted_and_stays_so(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SETTINGS) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client, **TOPIC_SETTINGS)
        fill(broker, topic)
        eventually(lambda: offsets(broker, topic) == [8, 9], "the compaction")
        rounds = rounds_of(broker)
        eventually(lambda: rounds._process is None, "the end of the process")
    with RunningBroker(tmp_path, SETTINGS) as broker:
        assert offsets(broker, topic) == [8, 9]
        log = broker.call(lambda: broker.server.services.partitions.find(topic, 0).log)
        eventually(lambda: log.offsets.first_dirty == 10, "the checkpoint to be read")


def test_nothing_is_compacted_when_the_cleaner_is_off(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SETTINGS | {"log.cleaner.enable": "false"}) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client, **TOPIC_SETTINGS)
        fill(broker, topic)
        names = [repr(task.get_coro()) for task in broker.server._node.background.tasks]
        assert names
        assert not any("LogCleaner" in name for name in names)
        assert offsets(broker, topic) == list(range(10))


def test_a_broker_stops_while_it_compacts(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SETTINGS | {"log.cleaner.io.max.bytes.per.second": "1"}) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client, **TOPIC_SETTINGS)
        fill(broker, topic)
        rounds = rounds_of(broker)
        eventually(lambda: rounds._process is not None, "a round to begin")
    with RunningBroker(tmp_path, SETTINGS) as broker:
        eventually(lambda: offsets(broker, topic) == [8, 9], "the compaction")

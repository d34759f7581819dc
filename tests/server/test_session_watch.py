"""Incremental fetch that checks only changed partitions: same responses as one that checks all partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.cluster.partitions.partition import READ_COMMITTED, READ_UNCOMMITTED
from kwire.log.errors import CorruptLogError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.fetch import FetchForgottenTopic, FetchPartition, FetchRequest, FetchTopic
from kwire.server.fetching import fetch_session
from tests.log.support import batch as transactional_batch
from tests.log.support import marker
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

VERSION = 12
COUNT = 5


class Consumer:
    """Consumer with one session on its own connection; with a rack, each fetch checks all partitions for closer
    replicas.
    """

    def __init__(self, client: RawClient, *, rack_id: str = "") -> None:
        self.client = client
        self.rack_id = rack_id
        self.session_id = self.epoch = 0
        self.order: list[tuple[str, int]] = []
        """Partitions of the last response."""

    def request(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        forgotten: list[tuple[str, int]] = [],  # noqa: B006 not changed
        isolation_level: int = READ_UNCOMMITTED,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 26,
    ) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)],
                )
                for (topic, index), offset in offsets.items()
            ],
            forgotten_topics_data=[FetchForgottenTopic(topic=topic, partitions=[index]) for topic, index in forgotten],
            rack_id=self.rack_id,
        )

    def take(self, request: FetchRequest) -> dict[tuple[str, int], Any]:
        answer = self.client.receive(request, VERSION)
        assert answer.error_code == 0
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        self.order = [(topic.topic, each.partition_index) for topic in answer.responses for each in topic.partitions]
        return {(topic.topic, each.partition_index): each for topic in answer.responses for each in topic.partitions}

    def fetch(self, offsets: dict[tuple[str, int], int], **more: Any) -> dict[tuple[str, int], Any]:
        request = self.request(offsets, **more)
        self.client.send_bytes(self.client.frame(request, VERSION))
        return self.take(request)


class World:
    """Broker with random changes of partitions that are visible to consumers."""

    def __init__(self, broker: RunningBroker, client: RawClient, seed: int) -> None:
        self.random_source = random.Random(seed)
        self.broker = broker
        self.client = client
        self.topics = [create_topic(client, 2, name=unique())[0] for _ in range(COUNT)]
        self.open: dict[tuple[str, int], int] = {}
        self.producers = 1000 * seed

    def key(self) -> tuple[str, int]:
        return self.random_source.choice(self.topics), self.random_source.randrange(2)

    def partition(self, key: tuple[str, int]) -> Any:
        return self.broker.server.services.partitions.get(*key)

    def change(self) -> None:
        what = self.random_source.choice(
            [self.write, self.write, self.begin, self.end, self.cut, self.retain, self.recreate]
        )
        what()

    def write(self) -> None:
        produce(self.client, self.key()[0], batch(b"v"), partition=self.random_source.randrange(2))

    def begin(self) -> None:
        key = self.key()
        if key not in self.open:
            self.producers += 1
            self.open[key] = self.producers
            sent = transactional_batch(
                b"t", producer_id=self.producers, producer_epoch=0, sequence=0, transactional=True
            )
            self.broker.call(lambda: self.partition(key).append(sent, -1))

    def end(self) -> None:
        if self.open:
            key = self.random_source.choice(list(self.open))
            producer_id = self.open.pop(key)
            ending = bytes(marker(producer_id, 0, commit=self.random_source.random() < 0.5))
            self.broker.call(lambda: self.partition(key).append_marker(ending, producer_id, 0, transaction_version=0))

    def cut(self) -> None:
        """Delete records as DeleteRecords does."""
        key = self.key()
        self.broker.call(lambda: self.partition(key).delete_records_before(-1))

    def retain(self) -> None:
        """Advance the log start as retention does, which sends no notification."""
        key = self.key()

        def move() -> None:
            partition = self.partition(key)
            log = partition.log
            log.delete_records_before(min(log.log_start_offset + 1, partition.high_watermark))
            partition.log_start_moved()

        self.broker.call(move)

    def recreate(self) -> None:
        """Delete a topic and create it again; clients of this version do not use topic ids."""
        if self.random_source.random() < 0.3:
            topic = self.random_source.choice(self.topics)
            self.client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
            self.open = {key: producer for key, producer in self.open.items() if key[0] != topic}
            if self.random_source.random() < 0.7:
                create_topic(self.client, 2, name=topic)
            else:
                self.topics[self.topics.index(topic)] = create_topic(self.client, 2, name=unique())[0]


@pytest.fixture
def two(broker: RunningBroker) -> Iterator[tuple[Consumer, Consumer]]:
    with broker.client() as one, broker.client() as other:
        yield Consumer(one), Consumer(other, rack_id="a-rack")


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_watched_session_returns_the_same_changes_as_a_full_check(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer], seed: int
) -> None:
    world = World(broker, client, seed)
    random_source = world.random_source
    offsets = {(topic, index): 0 for topic in world.topics for index in range(2)}
    news: dict[tuple[str, int], int] = dict(offsets)
    isolation_level = READ_UNCOMMITTED
    reported = 0
    for _ in range(150):
        for _ in range(random_source.randrange(3)):
            world.change()
        if random_source.random() < 0.1:
            isolation_level = READ_COMMITTED - isolation_level
        forgotten = [key for key in offsets if random_source.random() < 0.02]
        for key in forgotten:
            del offsets[key]
            news.pop(key, None)
        if random_source.random() < 0.1:
            key = world.key()
            offsets[key] = news[key] = 0
        if not offsets:
            continue
        max_bytes = random_source.choice((1, 100, 1 << 26))
        answers = [
            each.fetch(news, forgotten=forgotten, isolation_level=isolation_level, max_bytes=max_bytes) for each in two
        ]
        assert answers[0] == answers[1]
        assert two[0].order == two[1].order
        reported += len(answers[0])
        news = {}
        for key, data in answers[0].items():
            partition = world.partition(key)
            if data.error_code == 0 and data.records and random_source.random() < 0.8 and partition is not None:
                offsets[key] = news[key] = min(data.high_watermark, data.last_stable_offset)
            elif data.error_code and random_source.random() < 0.5:
                offsets[key] = news[key] = max(data.log_start_offset, 0)
    assert reported > 100


def unread(broker: RunningBroker, consumer: Consumer) -> set[Any]:
    sessions = broker.server.services.fetch_sessions
    return broker.call(lambda: set[Any](sessions._cache._sessions[consumer.session_id].unread))


def watchers(broker: RunningBroker, topic: str) -> int:
    partitions = broker.server.services.partitions
    return broker.call(lambda: sum(len(partitions.find(topic, index)._watchers) for index in range(COUNT)))


def opened(consumer: Consumer, topic: str) -> dict[tuple[str, int], int]:
    """Open a session; its second fetch checks all partitions and finds no change."""
    offsets = {(topic, index): 0 for index in range(COUNT)}
    consumer.fetch(offsets)
    assert consumer.fetch({}) == {}
    return offsets


def test_only_changed_partitions_are_checked(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    opened(consumer, topic)
    assert unread(broker, consumer) == set()
    produce(client, topic, batch(b"v"), partition=3)
    assert unread(broker, consumer) == {(topic, 3)}
    assert set(consumer.fetch({})) == {(topic, 3)}
    assert set(consumer.fetch({})) == {(topic, 3)}, "as long as the offset stays, so does the data"
    assert consumer.fetch({(topic, 3): 1}) == {}
    assert unread(broker, consumer) == set()


def test_a_partition_beyond_max_bytes_is_checked_again(client: RawClient, two: tuple[Consumer, Consumer]) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    opened(consumer, topic)
    for index in range(COUNT):
        for _ in range(3):
            produce(client, topic, batch(bytes(1000)), partition=index)
    news: dict[tuple[str, int], int] = {}
    got = dict.fromkeys(range(COUNT), 0)
    for _ in range(3 * COUNT):
        answer = consumer.fetch(news, max_bytes=1500)
        news = {}
        for (_, index), data in answer.items():
            if data.records:
                got[index] += 1
                news[topic, index] = got[index]
    assert got == dict.fromkeys(range(COUNT), 3), "each had its turn"


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
def test_a_change_in_any_partition_wakes_a_waiting_fetch(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer], isolation_level: int
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    consumer.fetch({(topic, index): 0 for index in range(COUNT)}, isolation_level=isolation_level)
    consumer.fetch({}, isolation_level=isolation_level)
    session = broker.server.services.fetch_sessions._cache._sessions[consumer.session_id]
    for index in (4, 0):
        request = consumer.request({}, isolation_level=isolation_level, max_wait_ms=600_000)
        consumer.client.send_bytes(consumer.client.frame(request, VERSION))
        eventually(lambda: broker.call(lambda: bool(session.waiters)), "the fetch waits")
        produce(client, topic, batch(b"v"), partition=index)
        assert set(consumer.take(request)) == {(topic, index)}
        assert broker.call(lambda: not session.waiters)
        consumer.fetch({(topic, index): 1}, isolation_level=isolation_level)


def test_a_closed_session_releases_its_watches(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    opened(consumer, topic)
    assert watchers(broker, topic) == COUNT
    consumer.fetch({}, forgotten=[(topic, 2)])
    assert watchers(broker, topic) == COUNT - 1
    consumer.epoch = -1
    consumer.fetch({(topic, 0): 0})
    eventually(lambda: watchers(broker, topic) == 0, "no partition tells the session")


def test_a_fetch_that_waits_in_a_session_that_ends_is_answered(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer, other = two
    opened(consumer, topic)
    request = consumer.request({}, max_wait_ms=600_000)
    consumer.client.send_bytes(consumer.client.frame(request, VERSION))
    session = broker.server.services.fetch_sessions._cache._sessions[consumer.session_id]
    eventually(lambda: broker.call(lambda: bool(session.waiters)), "the fetch waits")
    other.session_id, other.epoch = consumer.session_id, -1
    other.fetch({(topic, 0): 0})
    assert consumer.take(request) == {}


def test_a_partition_notifies_an_idle_session_once(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    """Sessions of disconnected clients must not slow appends down."""
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    opened(consumer, topic)
    produce(client, topic, batch(b"v"), partition=1)
    assert watchers(broker, topic) == COUNT - 1
    assert unread(broker, consumer) == {(topic, 1)}
    assert set(consumer.fetch({})) == {(topic, 1)}
    assert watchers(broker, topic) == COUNT, "it is watched again when it is read"


def test_deleting_a_topic_releases_its_watches(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    opened(consumer, topic)
    session = broker.server.services.fetch_sessions._cache._sessions[consumer.session_id]
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
    assert broker.call(lambda: [known.watch for known in session.partitions.values()]) == [None] * COUNT
    assert set(consumer.fetch({})) == {(topic, index) for index in range(COUNT)}


def test_a_fetch_in_progress_adds_no_watches_to_a_closed_session(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer, other = two
    consumer.fetch({(topic, index): 0 for index in range(COUNT)})
    session = broker.server.services.fetch_sessions._cache._sessions[consumer.session_id]
    other.session_id, other.epoch = consumer.session_id, -1
    other.fetch({(topic, 0): 0})
    partition = broker.server.services.partitions.find(topic, 0)
    broker.call(lambda: session.watch_partition((topic, 0), partition))
    assert watchers(broker, topic) == 0


def test_two_fetches_waiting_in_one_session_are_both_woken(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    first, second = two
    second.rack_id = ""
    opened(first, topic)
    session = broker.server.services.fetch_sessions._cache._sessions[first.session_id]
    requests = []
    for number, consumer in enumerate((first, second), 1):
        consumer.session_id, consumer.epoch = first.session_id, first.epoch + number - 1
        requests.append(consumer.request({}, max_wait_ms=600_000))
        consumer.client.send_bytes(consumer.client.frame(requests[-1], VERSION))
        eventually(lambda count=number: broker.call(lambda: len(session.waiters)) == count, "the fetch waits")  # type: ignore[misc]
    produce(client, topic, batch(b"v"), partition=2)
    for consumer, request in zip((first, second), requests, strict=True):
        assert set(consumer.take(request)) == {(topic, 2)}


def test_a_damaged_log_wakes_a_session(
    broker: RunningBroker, client: RawClient, two: tuple[Consumer, Consumer]
) -> None:
    topic, _ = create_topic(client, COUNT)
    consumer = two[0]
    opened(consumer, topic)
    partition = broker.server.services.partitions.find(topic, 3)
    broker.call(lambda: partition.log.health.damaged(CorruptLogError("a bit")))
    answer = eventually(lambda: consumer.fetch({}), "the session is notified")
    assert {key: data.error_code for key, data in answer.items()} == {(topic, 3): ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_fetch_checks_a_bounded_number_of_partitions_and_the_next_one_the_rest(
    client: RawClient, two: tuple[Consumer, Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large session with many changes responds after a limited check; the following fetches check the rest."""
    monkeypatch.setattr(fetch_session, "CHECKED_AT_ONCE", 3)
    consumer, _ = two
    topic, _ = create_topic(client, 10, name=unique())
    consumer.fetch({(topic, index): 0 for index in range(10)})
    for index in range(10):
        produce(client, topic, batch(b"v"), partition=index)
    seen: list[tuple[str, int]] = []
    for _ in range(4):
        seen += consumer.fetch({}, max_wait_ms=60_000)
    assert sorted(set(seen)) == [(topic, index) for index in range(10)]


def test_partitions_named_in_a_request_are_checked_first(
    client: RawClient, two: tuple[Consumer, Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_session, "CHECKED_AT_ONCE", 2)
    consumer, _ = two
    topic, _ = create_topic(client, 8, name=unique())
    for index in range(8):
        produce(client, topic, batch(b"v"), partition=index)
    consumer.fetch({(topic, index): 1 for index in range(8)})
    named = {(topic, index): 0 for index in range(3, 8)}
    found: list[tuple[str, int]] = []
    for fetched in (consumer.fetch(named), consumer.fetch({}), consumer.fetch({})):
        found += [key for key, data in fetched.items() if data.records]
    assert set(found[:2]) <= set(named)
    assert set(found) == set(named)


def test_partitions_that_are_not_there_do_not_keep_others_waiting(
    client: RawClient, two: tuple[Consumer, Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing partitions are checked on each fetch, because their topic may be created."""
    monkeypatch.setattr(fetch_session, "CHECKED_AT_ONCE", 4)
    consumer, _ = two
    topic, _ = create_topic(client, 1, name=unique())
    consumer.fetch({**{("nowhere", index): 0 for index in range(20)}, (topic, 0): 0})
    produce(client, topic, batch(b"v"))
    answers = [consumer.fetch({}, max_wait_ms=60_000) for _ in range(12)]
    assert any(answered.get((topic, 0)) is not None and answered[topic, 0].records for answered in answers[:6])
    assert {index for answered in answers for name, index in answered if name == "nowhere"} == set(range(20))

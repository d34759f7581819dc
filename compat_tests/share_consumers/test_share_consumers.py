"""Share groups of confluent-kafka: implicit and explicit acknowledgements, deliveries, several members, restarts."""

import threading
from collections import Counter

import pytest
from confluent_kafka import AcknowledgeType

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.share_consumers.sharing import SECONDS, configure, share_consumer, take

EXPLICIT = {"share_acknowledgement_mode": "explicit"}
MEMBERS = 5


@pytest.fixture
def shared(bootstrap, topic, group):
    """Create a topic of two partitions with 30 records in each, and let the group start at the first."""
    create_topic(bootstrap, topic, partitions=2)
    sender = producer(bootstrap)
    for partition in range(2):
        offsets_of(send_all(sender, topic, numbered(30), partition=partition))
    configure(bootstrap, group)
    return topic


def places(messages):
    return Counter((message.partition(), message.offset()) for message in messages)


ALL = Counter((partition, offset) for partition in range(2) for offset in range(30))


@pytest.mark.short
def test_every_record_is_delivered_once(bootstrap, shared, group):
    with share_consumer(bootstrap, group, shared) as client:
        assert places(take(client, 60)) == ALL
        assert set(client.commit_sync(20).values()) <= {None}
    offsets_of(send_all(producer(bootstrap), shared, numbered(5)))
    with share_consumer(bootstrap, group, shared) as client:
        assert places(take(client, 5)) == Counter((0, offset) for offset in range(30, 35))


@pytest.mark.short
def test_a_released_record_is_delivered_again_and_a_rejected_one_is_not(bootstrap, shared, group):
    with share_consumer(bootstrap, group, shared, **EXPLICIT) as client:
        seen = {}

        def enough():
            for message in client.poll(0.2):
                place = message.partition(), message.offset()
                seen.setdefault(place, []).append(message.delivery_count())
                is_first = len(seen[place]) == 1
                kind = AcknowledgeType.ACCEPT
                if message.offset() == 3:
                    kind = AcknowledgeType.REJECT
                elif message.offset() == 7 and is_first:
                    kind = AcknowledgeType.RELEASE
                client.acknowledge(message, kind)
            return sum(map(len, seen.values())) >= 62

        eventually(enough, "62 deliveries", SECONDS)
        assert set(client.commit_sync(20).values()) <= {None}
    assert {place: counts for place, counts in seen.items() if counts != [1]} == {(0, 7): [1, 2], (1, 7): [1, 2]}
    with share_consumer(bootstrap, group, shared) as client:
        offsets_of(send_all(producer(bootstrap), shared, numbered(1)))
        assert places(take(client, 1)) == Counter([(0, 30)])


def test_a_record_is_archived_after_its_last_delivery(bootstrap, shared, group):
    with share_consumer(bootstrap, group, shared, **EXPLICIT) as client:
        counts = Counter()

        def enough():
            for message in client.poll(0.2):
                counts[message.partition(), message.offset()] += 1
                client.acknowledge(message, AcknowledgeType.RELEASE)
            return counts.total() >= 5 * 60

        eventually(enough, "five deliveries of each record", SECONDS)
        client.commit_sync(20)
        offsets_of(send_all(producer(bootstrap), shared, numbered(1)))
        messages = take(client, 1, kind=lambda _: AcknowledgeType.ACCEPT)
        client.commit_sync(20)
    assert set(counts.values()) == {5}
    assert places(messages) == Counter([(0, 30)])


def test_records_of_a_member_that_leaves_are_delivered_to_another(bootstrap, shared, group):
    with share_consumer(bootstrap, group, shared, **EXPLICIT) as first:
        take(first, 1, kind=lambda _: AcknowledgeType.RELEASE)
    with share_consumer(bootstrap, group, shared) as second:
        assert places(take(second, 60)) == ALL


def test_members_share_the_records_of_every_partition(bootstrap, shared, group):
    taken = []
    lock = threading.Lock()
    done = threading.Event()
    problems = []

    def member():
        try:
            with share_consumer(bootstrap, group, shared) as client:
                while not done.is_set():
                    messages = list(client.poll(0.2))
                    with lock:
                        taken.extend(messages)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=member, daemon=True) for _ in range(MEMBERS)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: len(taken) >= 60, "every record", SECONDS)
    finally:
        done.set()
        for thread in threads:
            thread.join(30)
    assert problems == []
    assert places(taken) == ALL


@pytest.mark.restart
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_acknowledged_records_are_not_delivered_after_a_restart(broker, shared, group, clean):
    with share_consumer(broker.bootstrap, group, shared, **EXPLICIT) as client:
        seen = {}

        def kind(message):
            seen[message.partition(), message.offset()] = message
            return AcknowledgeType.RELEASE if message.offset() % 2 else AcknowledgeType.ACCEPT

        eventually(lambda: take(client, 1, kind=kind) and len(seen) == 60, "every record", SECONDS)
        assert set(client.commit_sync(20).values()) <= {None}
    broker.restart(clean=clean)
    with share_consumer(broker.bootstrap, group, shared) as client:
        assert places(take(client, 30)) == Counter(place for place in ALL if place[1] % 2)

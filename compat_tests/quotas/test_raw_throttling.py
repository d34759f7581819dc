"""Throttle times in responses, exact to the millisecond, and the broker's own enforcement of quotas (KIP-219).

The rate of a new client is measured over ten seconds: at 10,000 bytes a second its first 100,000 are free, and
each further 10 bytes cost a millisecond.
"""

import itertools
import time
from contextlib import ExitStack

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.quotas.named_peer import NamedPeer
from compat_tests.quotas.quotas import alter_by, ask_throttle, quota
from compat_tests.raw.peer import Peer
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, encode_batch

RATE = 10_000
FREE_BYTES = RATE * 10
THROTTLING_QUOTA_EXCEEDED = 89


def batch(size):
    return bytes(encode_batch([Record(key=b"k", value=b"x" * size, timestamp=1_720_000_000_000)]))


def produce_request(topic, size, acks=-1):
    data = PartitionProduceData(index=0, records=batch(size))
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetch_request(topic, offset, max_bytes, session=(0, -1)):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 30, session_id=session[0], session_epoch=session[1], topics=topics
    )


@pytest.fixture
def name(unique):
    return unique("client")


@pytest.fixture
def held(bootstrap, name):
    """Return a client whose quotas the test sets."""
    with NamedPeer(bootstrap, name) as connected:
        yield connected


@pytest.fixture
def peer(bootstrap):
    with Peer(bootstrap) as connected:
        yield connected


def entity(name):
    return (("client-id", name),)


def test_a_producer_gets_the_throttle_time_and_is_muted(bootstrap, peer, held, name, topic):
    peer.create_topic(topic)
    with quota(bootstrap, entity(name), "producer_byte_rate", RATE):
        began = time.monotonic()
        answer = held.ask(produce_request(topic, 110_000), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == (held.sent_bytes - FREE_BYTES + 5) // 10
        assert time.monotonic() - began < 0.7, "the answer itself is not held back"
        ask_throttle(held)
        assert time.monotonic() - began > answer.throttle_time_ms / 1000 - 0.1, "what comes next is"
        assert ask_throttle(peer) == 0, "others have no part in it"


def test_a_producer_with_acks_0_is_muted(bootstrap, peer, held, name, topic):
    peer.create_topic(topic)
    with quota(bootstrap, entity(name), "producer_byte_rate", RATE):
        began = time.monotonic()
        held.send(produce_request(topic, 110_000, acks=0), 9)
        ask_throttle(held)
        assert time.monotonic() - began > 0.9


def test_a_throttled_consumer_gets_an_empty_response_and_loses_no_records(bootstrap, peer, held, name, topic):
    peer.create_topic(topic)
    for _ in range(13):
        peer.ask(produce_request(topic, 9_900), 9)
    with quota(bootstrap, entity(name), "consumer_byte_rate", RATE):
        first = held.ask(fetch_request(topic, 0, FREE_BYTES - 500, session=(0, 0)), 12)
        assert first.throttle_time_ms == 0
        assert first.session_id > 0
        size = len(first.responses[0].partitions[0].records)
        assert 89_000 < size < FREE_BYTES
        began = time.monotonic()
        second = held.ask(fetch_request(topic, 9, 30_000, session=(first.session_id, 1)), 12)
        assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, [])
        assert 0 < second.throttle_time_ms < 4000
        third = held.ask(fetch_request(topic, 9, 1_000, session=(first.session_id, 2)), 12)
        assert time.monotonic() - began > second.throttle_time_ms / 1000 - 0.1
        assert third.throttle_time_ms > 0 or third.responses[0].partitions[0].records
    with quota(bootstrap, entity(name), "consumer_byte_rate", 1_000_000):
        fourth = eventually(lambda: fetched(held, topic, first.session_id), "the quota to be wider")
        assert fourth.responses[0].partitions[0].records


def fetched(held, topic, session_id):
    answer = held.ask(fetch_request(topic, 9, 1 << 20), 12)
    return answer if answer.throttle_time_ms == 0 else None


def create(peer, unique_name, partitions, version):
    topic = CreatableTopic(name=unique_name, num_partitions=partitions, replication_factor=1)
    return peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version)


def test_mutations_are_rejected_or_delayed_by_request_version(bootstrap, held, name, unique):
    """22 mutations are available at once at 2 a second (KIP-599); after them, strict versions reject requests."""
    with quota(bootstrap, entity(name), "controller_mutation_rate", 2.0):
        burst = create(held, unique("burst"), 25, 7)
        assert (burst.throttle_time_ms, burst.topics[0].error_code) == (0, 0)
        rejected = create(held, unique("rejected"), 1, 7)
        assert rejected.topics[0].error_code == THROTTLING_QUOTA_EXCEEDED
        assert rejected.topics[0].error_message is None
        assert 500 < rejected.throttle_time_ms <= 1_500
        delayed = create(held, unique("delayed"), 3, 5)
        assert delayed.topics[0].error_code == 0
        assert 1_000 < delayed.throttle_time_ms <= 1_550, "who was muted before has paid for the first"
        grown = CreatePartitionsTopic(name=burst.topics[0].name, count=27, assignments=None)
        assert create(held, unique("late"), 3, 5).throttle_time_ms > 1_000
        answer = held.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=5000), 1)
        assert answer.results[0].error_code == 0
        assert answer.throttle_time_ms > 500
        held_back = create(held, unique("last"), 3, 5)
        assert held_back.throttle_time_ms > 1_000


def test_deletions_count_as_mutations(bootstrap, peer, held, name, topic):
    peer.create_topic(topic, partitions=13)
    with quota(bootstrap, entity(name), "controller_mutation_rate", 1.0):
        assert (
            held.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
            .responses[0]
            .error_code
            == 0
        )
        again = held.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="never-made")], timeout_ms=5000), 6)
        assert again.responses[0].error_code == 3
        assert again.throttle_time_ms == 0, "what cannot be done costs nothing"


def test_the_time_of_requests_counts(bootstrap, held, name):
    """The quota is too low for any request: the throttle time is limited to one window, a second."""
    with quota(bootstrap, entity(name), "request_percentage", 0.0001):
        waits = [held.ask(MetadataRequest(topics=[]), 9).throttle_time_ms for _ in range(3)]
        assert max(waits) == 1000
        began = time.monotonic()
        held.ask(MetadataRequest(topics=[]), 9)
        assert time.monotonic() - began > 0.8


def test_connections_above_the_ip_connection_rate_are_closed(bootstrap, peer):
    """At three connections a second, thirty are accepted at once; the broker closes those over that number (KIP-612).

    The test opens eighty, so that the last are over the limit even if connecting takes some seconds.
    """
    address = (("ip", "127.0.0.1"),)
    assert alter_by(peer, address, "connection_creation_rate", 3.0) == (0, None)
    with ExitStack() as stack:
        try:

            def rejected():
                others = [stack.enter_context(Peer(bootstrap)) for _ in range(80)]
                assert ask_throttle(others[0]) == 0
                return all(other.is_closed() for other in others[75:])

            eventually(rejected, "connections over the quota to be closed")
        finally:
            assert alter_by(peer, address, "connection_creation_rate", None) == (0, None)


NARROW, WIDE = 10_000, 1_000_000_000
IN_ORDER = [
    "user-client",
    "user-default-client",
    "user",
    "default-user-client",
    "default-user-default-client",
    "default-user",
    "client",
    "default-client",
]


def place(title, client_id):
    """Return the entity for a name of IN_ORDER. Without authentication every user is ANONYMOUS."""
    users = {"user": ("user", "ANONYMOUS"), "default-user": ("user", None)}
    clients = {"client": ("client-id", client_id), "default-client": ("client-id", None)}
    user = next((users[each] for each in ("default-user", "user") if title.startswith(each)), None)
    client = next((clients[each] for each in ("default-client", "client") if title.endswith(each)), None)
    return tuple(each for each in (client, user) if each is not None)


@pytest.mark.parametrize(("nearer", "farther"), itertools.pairwise(IN_ORDER))
def test_the_most_specific_quota_applies(bootstrap, name, topic, nearer, farther):
    with Peer(bootstrap) as peer:
        peer.create_topic(topic)
    for near, far in ((WIDE, NARROW), (NARROW, WIDE)):
        quotas = [(place(nearer, name), near), (place(farther, name), far)]
        with ExitStack() as stack, NamedPeer(bootstrap, name) as held:
            for each, rate in quotas:
                stack.enter_context(quota(bootstrap, each, "producer_byte_rate", rate))
            throttle_ms = held.ask(produce_request(topic, 112_000), 9).throttle_time_ms
            assert (throttle_ms > 0) == (near is NARROW)

"""Pitfall 10: fetch sessions (KIP-227) return only changed partitions, and no forgotten ones."""

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import batch_of, offsets_in
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.fetch import FetchForgottenTopic, FetchPartition, FetchRequest, FetchTopic

VERSION = 13


class Session:
    """Fetch session of one consumer, which counts its own epochs."""

    def __init__(self, peer):
        self.peer = peer
        self.session_id, self.epoch = 0, 0

    def fetch(self, *wanted, forget=(), version=VERSION):
        """Fetch in the session; each wanted partition is (topic id, partition, offset)."""
        topics = [
            FetchTopic(
                topic_id=topic_id,
                partitions=[FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
            for topic_id, number, offset in wanted
        ]
        forgotten = [FetchForgottenTopic(topic_id=topic_id, partitions=[number]) for topic_id, number in forget]
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        answer = self.peer.ask(request, version)
        if answer.error_code == 0:
            self.session_id = answer.session_id
            self.epoch += 1
        return answer


def changed(answer):
    return {
        (topic.topic_id, each.partition_index): (each.error_code, offsets_in(each.records or b""))
        for topic in answer.responses
        for each in topic.partitions
    }


@pytest.fixture
def session(peer):
    return Session(peer)


@pytest.mark.short
def test_only_changed_partitions_are_returned(peer, session, topic):
    topic_id = peer.create_topic(topic, 2)
    first = session.fetch((topic_id, 0, 0), (topic_id, 1, 0))
    assert changed(first) == {(topic_id, 0): (0, []), (topic_id, 1): (0, [])}
    assert first.session_id != 0
    assert changed(session.fetch()) == {}
    peer.produce(topic, batch_of(3), partition=1)
    assert changed(session.fetch()) == {(topic_id, 1): (0, [0, 1, 2])}
    assert changed(session.fetch((topic_id, 1, 3))) == {}


def test_a_forgotten_partition_is_not_returned(peer, session, topic):
    topic_id = peer.create_topic(topic, 2)
    session.fetch((topic_id, 0, 0), (topic_id, 1, 0))
    session.fetch(forget=[(topic_id, 1)])
    for partition in range(2):
        peer.produce(topic, batch_of(3), partition=partition)
    assert changed(session.fetch()) == {(topic_id, 0): (0, [0, 1, 2])}


def test_a_partition_may_be_added_later(peer, session, topic, unique):
    first, second = peer.create_topic(topic), peer.create_topic(unique("second"))
    peer.produce(unique("second"), batch_of(2))
    session.fetch((first, 0, 0))
    assert changed(session.fetch((second, 0, 0))) == {(second, 0): (0, [0, 1])}


@pytest.mark.short
def test_wrong_sessions_and_epochs_are_rejected(peer, session, topic):
    topic_id = peer.create_topic(topic)
    session.fetch((topic_id, 0, 0))
    session.epoch += 1
    assert session.fetch().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.session_id += 1
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_is_closed_is_gone(peer, session, topic):
    topic_id = peer.create_topic(topic)
    session.fetch((topic_id, 0, 0))
    known = session.session_id
    session.epoch = -1
    assert session.fetch((topic_id, 0, 0)).session_id == 0
    session.session_id, session.epoch = known, 1
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_error_is_repeated_until_it_ends(peer, session, topic):
    topic_id = peer.create_topic(topic)
    peer.produce(topic, batch_of(3))
    session.fetch((topic_id, 0, 99))
    for _ in range(2):
        assert changed(session.fetch())[topic_id, 0][0] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_recreated_topic_is_another_topic_in_a_session(peer, session, topic):
    old = peer.create_topic(topic)
    peer.produce(topic, batch_of(3))
    session.fetch((old, 0, 3))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000)
    assert peer.ask(request, 6).responses[0].error_code == 0
    eventually(lambda: peer.describe(topic).error_code == 3, "the topic is gone")
    new = peer.create_topic(topic)
    peer.produce(topic, batch_of(5))

    def rejected():
        return changed(session.fetch()).get((old, 0), (0,))[0] in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INCONSISTENT_TOPIC_ID,
        )

    eventually(rejected, "the old id is rejected")
    answer = changed(session.fetch((new, 0, 0), forget=[(old, 0)]))
    assert answer == {(new, 0): (0, [0, 1, 2, 3, 4])}


def test_a_session_continues_on_another_connection(peer, session, topic, bootstrap):
    from compat_tests.raw.peer import Peer

    topic_id = peer.create_topic(topic)
    session.fetch((topic_id, 0, 0))
    peer.produce(topic, batch_of(2))
    with Peer(bootstrap) as other:
        session.peer = other
        assert changed(session.fetch()) == {(topic_id, 0): (0, [0, 1])}

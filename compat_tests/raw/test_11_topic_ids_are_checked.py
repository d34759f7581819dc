"""Pitfall 11: requests by topic id work; an unknown id gets UNKNOWN_TOPIC_ID, not an error about a name."""

import uuid

import pytest

from compat_tests.raw.peer import NO_ID, batch_of, offsets_in
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.mark.short
def test_produce_fetch_and_metadata_by_id(peer, topic):
    topic_id = peer.create_topic(topic)
    assert peer.produce("", batch_of(5), topic_id=topic_id, version=13).base_offset == 0
    for version in range(13, 19):
        assert offsets_in(peer.fetch("", 0, topic_id=topic_id, version=version).records) == [0, 1, 2, 3, 4]
    for version in (12, 13):
        request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
        (described,) = peer.ask(request, version).topics
        assert (described.name, described.topic_id, described.error_code) == (topic, topic_id, 0)
    assert peer.describe(topic, version=10).topic_id == topic_id


@pytest.mark.short
def test_unknown_topic_ids_return_an_error(peer):
    unknown = uuid.uuid4()
    assert peer.produce("", batch_of(1), topic_id=unknown, version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    for version in range(13, 19):
        assert peer.fetch("", 0, topic_id=unknown, version=version).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=unknown, name=None)])
    (described,) = peer.ask(request, 12).topics
    assert (described.error_code, described.topic_id, described.name) == (ErrorCode.UNKNOWN_TOPIC_ID, unknown, None)


def test_topics_are_deleted_by_id(peer, topic):
    topic_id = peer.create_topic(topic)
    states = [DeleteTopicState(name=None, topic_id=topic_id), DeleteTopicState(name=None, topic_id=uuid.uuid4())]
    answers = peer.ask(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6).responses
    found = {each.topic_id: (each.error_code, each.name) for each in answers}
    assert found[topic_id] == (0, topic)
    assert found[states[1].topic_id] == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_deleting_by_id_and_name_at_once_is_rejected(peer, topic):
    topic_id = peer.create_topic(topic)
    states = [DeleteTopicState(name=topic, topic_id=topic_id)]
    (answer,) = peer.ask(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert peer.describe(topic).topic_id == topic_id != NO_ID

"""Share coordinators over the wire: requests of brokers have the same results on both brokers (KIP-932)."""

from uuid import UUID

import pytest

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from kwire.protocol.uuids import uuid_to_text
from tests.support.share_state import batches, delete, find, initialise, read, summary, write

E = ErrorCode
pytestmark = pytest.mark.short


@pytest.fixture
def topic_id(peer, topic):
    """Return the id of a topic with two partitions, whose share coordinators are available."""
    topic_id = peer.create_topic(topic, 2)
    for partition in (0, 1):
        key = f"g:{uuid_to_text(topic_id)}:{partition}"
        eventually(lambda key=key: find(peer, key).error_code == E.NONE, "the share coordinator")
        eventually(
            lambda each=partition: summary(peer, topic_id, each).error_code == E.NONE, "the coordinator to be loaded"
        )
    return topic_id


def test_state_is_initialised_read_written_and_deleted(peer, topic_id):
    assert initialise(peer, topic_id, 0, start=10) == [E.NONE]
    state = read(peer, topic_id, 0, leader_epoch=4)
    assert (state.error_code, state.error_message, state.state_epoch, state.start_offset) == (0, None, 0, 10)
    assert write(peer, topic_id, 0, (10, 19, 2, 1), (15, 30, 0, 2), leader_epoch=4, delivery_complete_count=5) == 0
    assert batches(read(peer, topic_id, 0, leader_epoch=4)) == [(10, 14, 2, 1), (15, 30, 0, 2)]
    assert write(peer, topic_id, 0, (20, 20, 4, 3), leader_epoch=9, start_offset=12, version=0) == 0
    assert batches(read(peer, topic_id, 0)) == [(12, 14, 2, 1), (15, 19, 0, 2), (20, 20, 4, 3), (21, 30, 0, 2)]
    summed = summary(peer, topic_id, 0)
    assert (summed.leader_epoch, summed.start_offset, summed.delivery_complete_count) == (4, 12, -1)
    assert delete(peer, topic_id, 0) == delete(peer, topic_id, 0) == E.NONE
    assert read(peer, topic_id, 0).error_code == E.INVALID_REQUEST
    summed = summary(peer, topic_id, 0)
    assert (summed.error_code, summed.error_message) == (0, None)
    assert (summed.state_epoch, summed.start_offset, summed.leader_epoch, summed.delivery_complete_count) == (
        0,
        -1,
        0,
        -1,
    )


def test_older_epochs_are_fenced(peer, topic_id):
    assert initialise(peer, topic_id, 0, epoch=3) == [E.NONE]
    assert read(peer, topic_id, 0, leader_epoch=7).error_code == E.NONE
    assert read(peer, topic_id, 0, leader_epoch=6).error_code == E.FENCED_LEADER_EPOCH
    assert write(peer, topic_id, 0, state_epoch=3, leader_epoch=6) == E.FENCED_LEADER_EPOCH
    assert write(peer, topic_id, 0, state_epoch=2, leader_epoch=7) == E.FENCED_STATE_EPOCH
    assert initialise(peer, topic_id, 0, epoch=2) == [E.FENCED_STATE_EPOCH]
    assert initialise(peer, topic_id, 0, epoch=4, start=9) == [E.NONE]
    assert read(peer, topic_id, 0, leader_epoch=6).error_code == E.FENCED_LEADER_EPOCH


def test_invalid_and_unknown_partitions_are_rejected(peer, topic_id):
    unknown = UUID(int=77)
    assert initialise(peer, topic_id, -1) == [E.INVALID_REQUEST]
    assert initialise(peer, topic_id, 2) == initialise(peer, unknown, 0) == [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert read(peer, unknown, 0).error_code == write(peer, unknown, 0) == E.INVALID_REQUEST
    assert delete(peer, unknown, 0) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert summary(peer, unknown, 0).error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert read(peer, topic_id, 1).error_message == "Read operation on uninitialized share partition not allowed."


def test_requests_without_a_group_or_partitions_have_an_empty_response(peer, topic_id):
    assert initialise(peer, topic_id, 0, group="") == initialise(peer, topic_id) == []
    assert peer.ask(WriteShareGroupStateRequest(group_id="g", topics=[]), 1).results == []


@pytest.mark.parametrize(
    "key", ["", "g", "g:0", ":{id}:0", "  :{id}:0", "g:{id}:x", "g:{id}:9999999999", "g:{id}:", "g:{id}:0_1"]
)
def test_keys_of_another_form_are_invalid(peer, topic_id, key):
    assert find(peer, key.format(id=uuid_to_text(topic_id))).error_code == E.INVALID_REQUEST


@pytest.mark.parametrize("key", ["a:b:{id}:0", "g:{id}:+0", "g:{id}:0::", "g:{id}:007", "g:{id}:-1"])
def test_unusual_keys_are_valid(peer, topic_id, key):
    text = key.format(id=uuid_to_text(topic_id))
    eventually(lambda: find(peer, text).error_code == E.NONE, "the share coordinator")
    assert find(peer, text, version=5).error_code == E.INVALID_REQUEST

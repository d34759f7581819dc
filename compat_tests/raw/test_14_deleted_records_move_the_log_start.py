"""Pitfall 14: DeleteRecords moves the log start offset, and all other responses agree with it."""

import pytest

from compat_tests.raw.peer import batch_of, offsets_in
from compat_tests.raw.test_03_list_offsets_answers_every_special_timestamp import EARLIEST, LATEST, ask
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


def delete(peer, topic, offset, version=2, partition=0):
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    (topic_answer,) = peer.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), version).topics
    (answer,) = topic_answer.partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.short
@pytest.mark.parametrize("version", range(3))
def test_the_start_moves_inside_a_batch_and_to_the_end(peer, topic, version):
    peer.create_topic(topic)
    for start in (0, 10):
        peer.produce(topic, batch_of(10, start))
    assert delete(peer, topic, 5, version) == (0, 5)
    assert ask(peer, topic, EARLIEST, 7).offset == 5
    assert peer.fetch(topic, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = peer.fetch(topic, 5)
    assert answer.log_start_offset == 5
    assert offsets_in(answer.records)[-1] == 19
    assert delete(peer, topic, -1, version) == (0, 20)
    assert (ask(peer, topic, EARLIEST, 7).offset, ask(peer, topic, LATEST, 7).offset) == (20, 20)
    assert peer.produce(topic, batch_of(1)).base_offset == 20


def test_an_older_start_changes_nothing(peer, topic):
    peer.create_topic(topic)
    peer.produce(topic, batch_of(10))
    assert delete(peer, topic, 7) == (0, 7)
    assert delete(peer, topic, 3) == (0, 7)
    assert ask(peer, topic, EARLIEST, 7).offset == 7


def test_invalid_delete_records_requests_return_an_error(peer, topic, unique):
    peer.create_topic(topic)
    assert delete(peer, topic, 11)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(peer, topic, -2)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(peer, unique("unknown"), 0)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(peer, topic, 0, partition=4)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

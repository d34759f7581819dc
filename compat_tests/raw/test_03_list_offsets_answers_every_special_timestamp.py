"""Pitfall 3: ListOffsets supports its special timestamps, timestamps, leader epochs and isolation levels."""

import pytest

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS
from compat_tests.raw.peer import batch_of
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


def ask(peer, topic, timestamp, version, *, isolation=0, leader_epoch=-1, partition=0):
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=5000)
    (found,) = peer.ask(request, version).topics[0].partitions
    return found


@pytest.fixture
def filled(peer, topic):
    peer.create_topic(topic)
    for start in (0, 10, 20):
        assert peer.produce(topic, batch_of(10, start)).error_code == 0
    return topic


@pytest.mark.short
@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_both_ends_and_times(peer, filled, version):
    for timestamp, expected in (
        (LATEST, (0, 30, -1)),
        (EARLIEST, (0, 0, -1)),
        (FIRST_TIMESTAMP_MS - 1, (0, 0, FIRST_TIMESTAMP_MS)),
        (FIRST_TIMESTAMP_MS + 155, (0, 16, FIRST_TIMESTAMP_MS + 160)),
        (FIRST_TIMESTAMP_MS + 290, (0, 29, FIRST_TIMESTAMP_MS + 290)),
        (FIRST_TIMESTAMP_MS + 291, (0, -1, -1)),
    ):
        found = ask(peer, filled, timestamp, version)
        assert (found.error_code, found.offset, found.timestamp) == expected
        if version >= 4:
            assert found.leader_epoch == (-1 if found.offset == -1 else 0)


@pytest.mark.parametrize("isolation", [0, 1])
def test_both_isolation_levels_agree_without_transactions(peer, filled, isolation):
    assert ask(peer, filled, LATEST, 7, isolation=isolation).offset == 30


@pytest.mark.parametrize(
    ("timestamp", "first_version", "expected"),
    [
        (MAX_TIMESTAMP, 7, (0, 29, FIRST_TIMESTAMP_MS + 290)),
        (EARLIEST_LOCAL, 8, (0, 0, -1)),
        (LATEST_TIERED, 9, (0, -1, -1)),
    ],
)
def test_newer_special_timestamps_need_their_request_version(peer, filled, timestamp, first_version, expected):
    found = ask(peer, filled, timestamp, first_version)
    assert (found.error_code, found.offset, found.timestamp) == expected
    rejected = ask(peer, filled, timestamp, first_version - 1)
    assert rejected.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_partition_has_ends_and_no_times(peer, topic):
    peer.create_topic(topic)
    assert [ask(peer, topic, timestamp, 7).offset for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, 0)] == [
        0,
        0,
        -1,
        -1,
    ]


def test_a_leader_epoch_is_checked(peer, filled):
    assert ask(peer, filled, LATEST, 7, leader_epoch=0).error_code == 0
    assert ask(peer, filled, LATEST, 7, leader_epoch=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_unknown_topics_and_partitions_return_an_error(peer, filled, unique):
    assert ask(peer, unique("unknown"), LATEST, 7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(peer, filled, LATEST, 7, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

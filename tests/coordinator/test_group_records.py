"""Records of the group coordinator: byte for byte as Apache Kafka 4.3.1 writes them.

The bytes were read from a broker's __consumer_offsets after the same requests.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.coordinator.group.classic.member import member_from_record
from kwire.coordinator.group.offsets import Offsets
from kwire.coordinator.group.records import (
    GroupRecord,
    OffsetAndMetadata,
    decode_group_record,
    encode_group_record,
    group_metadata_record,
    group_tombstone,
    offset_commit_record,
    offset_tombstone,
)
from kwire.protocol.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue

TOPIC_ID = UUID(int=5)


def committed(offset: int, *, record_offset: int = -1, expire_timestamp_ms: int = -1) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, 3, "m", 1000, expire_timestamp_ms, TOPIC_ID, record_offset)


def test_an_offset_commit_with_a_topic_id_is_written_in_version_4() -> None:
    key, value = encode_group_record(offset_commit_record("g", "t", 1, committed(9)))
    assert key == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\1"
    assert value is not None
    assert value[:2] == b"\0\4"
    assert (
        value[2:] == bytes(7) + b"\x09" + b"\0\0\0\3" + b"\2m" + bytes(6) + b"\x03\xe8" + b"\1\0\x10" + TOPIC_ID.bytes
    )


def test_an_offset_with_an_expire_timestamp_is_written_in_version_1() -> None:
    _, value = encode_group_record(offset_commit_record("g", "t", 1, committed(9, expire_timestamp_ms=2000)))
    assert value == b"\0\1" + bytes(7) + b"\x09" + b"\0\1m" + bytes(6) + b"\x03\xe8" + bytes(6) + b"\x07\xd0"


def test_a_group_without_members() -> None:
    key, value = encode_group_record(group_metadata_record("g", state_timestamp_ms=1000))
    assert key == b"\0\2\0\1g"
    assert value == b"\0\3" + b"\0\0" + bytes(4) + b"\xff\xff\xff\xff" + bytes(6) + b"\x03\xe8" + bytes(4)


def test_a_group_with_a_static_member() -> None:
    recorded = MemberMetadata(
        member_id="i-1",
        group_instance_id="i",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=3000,
        session_timeout=10000,
        subscription=b"s",
        assignment=b"a",
    )
    record = group_metadata_record(
        "g",
        protocol_type="consumer",
        generation=2,
        protocol="range",
        leader="i-1",
        state_timestamp_ms=1000,
        members=[recorded],
    )
    key, value = encode_group_record(record)
    assert decode_group_record(key, value) == record
    member = member_from_record(recorded, "consumer", "range")
    assert member.recorded("range", member.assignment) == recorded


def test_old_member_records_have_no_rebalance_timeout() -> None:
    member = member_from_record(MemberMetadata(member_id="m", session_timeout=10000), "consumer", "range")
    assert member.rebalance_timeout_ms == 10000


def test_tombstones_have_no_value() -> None:
    for record in (group_tombstone("g"), offset_tombstone("g", "t", 0)):
        key, value = encode_group_record(record)
        assert value is None
        assert decode_group_record(key, value) == GroupRecord(record.key, None)


def test_a_group_record_without_a_timestamp_is_readable() -> None:
    record = group_metadata_record("g", state_timestamp_ms=None)
    assert isinstance(record.value, GroupMetadataValue)
    assert record.value.current_state_timestamp == -1


class TestTransactionalOffsets:
    """Transactional offsets: pending until the marker; the latest record decides, not the latest marker."""

    key = OffsetCommitKey(group="g", topic="t", partition=0)

    def test_a_commit_marker_applies_pending_offsets(self) -> None:
        offsets = Offsets()
        offsets.replay(self.key, OffsetCommitValue(offset=5), 10, 7)
        assert offsets.find("g", "t", 0) is None
        assert offsets.is_pending("g", "t", 0)
        assert offsets.has_open_transaction("g")
        assert list(offsets.partitions_of_topic("t")) == [("g", 0)]
        offsets.replay_marker(7, is_commit=True)
        found = offsets.find("g", "t", 0)
        assert found is not None
        assert found.offset == 5
        assert not offsets.is_pending("g", "t", 0)

    def test_an_abort_marker_drops_pending_offsets(self) -> None:
        offsets = Offsets()
        offsets.replay(self.key, OffsetCommitValue(offset=5), 10, 7)
        offsets.replay_marker(7, is_commit=False)
        assert offsets.find("g", "t", 0) is None
        assert not offsets.has_open_transaction("g")

    def test_a_commit_marker_keeps_a_later_plain_commit(self) -> None:
        offsets = Offsets()
        offsets.replay(self.key, OffsetCommitValue(offset=5), 10, 7)
        offsets.replay(self.key, OffsetCommitValue(offset=6), 11, -1)
        offsets.replay_marker(7, is_commit=True)
        found = offsets.find("g", "t", 0)
        assert found is not None
        assert found.offset == 6

    def test_a_tombstone_drops_pending_offsets(self) -> None:
        offsets = Offsets()
        offsets.replay(self.key, OffsetCommitValue(offset=5), 10, 7)
        offsets.replay(self.key, None, 11, -1)
        offsets.replay_marker(7, is_commit=True)
        assert offsets.by_topic("g") == {}
        assert not offsets.has_open_transaction("g")
        assert list(offsets.partitions_of_topic("t")) == []

    def test_an_offset_in_several_transactions_is_pending_until_the_last_marker(self) -> None:
        offsets = Offsets()
        for producer_id in (7, 8):
            offsets.replay(self.key, OffsetCommitValue(offset=5), producer_id, producer_id)
            offsets.replay(self.key, OffsetCommitValue(offset=6), producer_id + 10, producer_id)
        offsets.replay_marker(7, is_commit=False)
        assert offsets.is_pending("g", "t", 0)
        assert list(offsets.partitions_of_group("g")) == [("t", 0)]
        offsets.replay_marker(8, is_commit=False)
        assert not offsets.is_pending("g", "t", 0)
        assert list(offsets.partitions_of_topic("t")) == []

    def test_a_group_does_not_visit_the_transactions_of_other_groups(self) -> None:
        class Unvisited(dict[int, Any]):
            def values(self) -> Any:
                raise AssertionError("all transactions are visited")

        offsets = Offsets()
        offsets._pending = Unvisited()
        offsets.replay(OffsetCommitKey(group="other", topic="t", partition=0), OffsetCommitValue(offset=5), 9, 8)
        offsets.replay(self.key, OffsetCommitValue(offset=5), 10, 7)
        assert offsets.is_pending("g", "t", 0)
        assert not offsets.is_pending("g", "t", 1)
        assert offsets.has_open_transaction("g")
        assert list(offsets.partitions_of_group("g")) == [("t", 0)]
        assert list(offsets.partitions_of_topic("t")) == [("other", 0), ("g", 0)]
        offsets.replay(self.key, None, 11, -1)
        assert list(offsets.partitions_of_topic("t")) == [("other", 0)]

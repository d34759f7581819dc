"""Records of __share_group_state: round trips, tombstones, and bytes that are no record."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.coordinator.share.batches import StateBatch
from kwire.coordinator.share.keys import ShareKey, parse_share_key
from kwire.coordinator.share.records import ShareRecord, decode_share_record, encode_share_record
from kwire.coordinator.share.state import ShareState, ShareUpdate
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError, UnknownRecordTypeError
from kwire.protocol.uuids import uuid_to_text

KEY = ShareKey("group", UUID(int=5), 3)
BATCHES = (StateBatch(5, 9, 0, 1), StateBatch(10, 1 << 40, 4, 7))
STATE = ShareState(
    snapshot_epoch=1,
    state_epoch=2,
    leader_epoch=3,
    start_offset=4,
    delivery_complete_count=5,
    batches=BATCHES,
    create_ms=6,
    write_ms=7,
)
UPDATE = ShareUpdate(snapshot_epoch=1, leader_epoch=3, start_offset=-1, delivery_complete_count=-1, batches=BATCHES)
RECORDS = [ShareRecord(KEY, STATE), ShareRecord(KEY, UPDATE), ShareRecord(KEY, None)]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_decoded_as_it_was_encoded(record: ShareRecord) -> None:
    assert decode_share_record(*encode_share_record(record)) == record


def test_a_tombstone_has_the_key_of_a_snapshot() -> None:
    keys = [encode_share_record(record)[0] for record in RECORDS]
    assert keys[2] == keys[0] == b"\0\0" + keys[1][2:]
    assert keys[1][:2] == b"\0\1"


@pytest.mark.parametrize("record", RECORDS[:2])
def test_truncated_records_are_rejected(record: ShareRecord) -> None:
    key, value = encode_share_record(record)
    assert value is not None
    for size in range(len(key)):
        with pytest.raises(ProtocolError):
            decode_share_record(key[:size], value)
    for size in range(len(value)):
        with pytest.raises(ProtocolError):
            decode_share_record(key, value[:size])


def test_records_of_a_newer_type_are_reported() -> None:
    with pytest.raises(UnknownRecordTypeError):
        decode_share_record(b"\0\2abc", None)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("g:{id}:3", ShareKey("g", KEY.topic_id, 3)),
        ("a:b::{id}:3", ShareKey("a:b:", KEY.topic_id, 3)),
        ("g:{id}:3::", ShareKey("g", KEY.topic_id, 3)),
        ("g:{id}:-03", ShareKey("g", KEY.topic_id, -3)),
    ],
)
def test_keys_are_parsed_from_the_right(text: str, key: ShareKey) -> None:
    assert parse_share_key(text.format(id=uuid_to_text(KEY.topic_id))) == key
    assert parse_share_key(key.coordinator_key) == key


@pytest.mark.parametrize("text", ["", "::", "g:{id}", "g:{id}:", "g:{id}:2147483648", "g:{id}:3_0", "g:{id}x:3"])
def test_keys_of_another_form_are_invalid(text: str) -> None:
    with pytest.raises(KafkaError) as rejected:
        parse_share_key(text.format(id=uuid_to_text(KEY.topic_id)))
    assert rejected.value.code is ErrorCode.INVALID_REQUEST

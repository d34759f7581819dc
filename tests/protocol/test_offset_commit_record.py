"""Hand-written encoder of committed offsets against the declared messages."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.protocol.error_codes import EncodeError
from kwire.protocol.messages.group_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from kwire.protocol.offset_commit_record import encode_offset_commit_key, encode_offset_commit_value
from kwire.protocol.primitives import ZERO_UUID

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
TOPIC_IDS = st.one_of(st.just(ZERO_UUID), st.uuids())


@given(NAMES, NAMES, INT32)
def test_the_key_is_the_declared_one(group: str, topic: str, partition: int) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    encoded = encode_offset_commit_key(group, topic, partition)
    assert encoded == encode_group_key(key)
    assert decode_group_key(encoded) == key


@given(INT64, INT32, NAMES, INT64, TOPIC_IDS)
def test_the_value_is_the_declared_one(
    offset: int, leader_epoch: int, metadata: str, commit_timestamp_ms: int, topic_id: UUID
) -> None:
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        topic_id=topic_id,
    )
    encoded = encode_offset_commit_value(offset, leader_epoch, metadata, commit_timestamp_ms, topic_id)
    assert encoded == encode_group_value(value)
    assert decode_group_value(OffsetCommitKey(), encoded) == value


def test_strings_above_32767_bytes_are_rejected() -> None:
    longest = "x" * 32767
    assert decode_group_key(encode_offset_commit_key(longest, longest, 0)) == OffsetCommitKey(
        group=longest, topic=longest, partition=0
    )
    for group, topic in ((longest + "x", ""), ("", longest + "x")):
        with pytest.raises(EncodeError):
            encode_offset_commit_key(group, topic, 0)
    with pytest.raises(EncodeError):
        encode_offset_commit_value(0, 0, "ü" * 16384, 0, ZERO_UUID)

"""Records of __share_group_state: a snapshot or an update of a share partition, or a tombstone.

A tombstone has the key of a snapshot, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kwire.coordinator.share.batches import Batches, StateBatch, in_order
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.state import ShareState, ShareUpdate
from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError
from kwire.protocol.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kwire.protocol.schema import schema_of

VERSION: Final = 0
_PREFIX_SIZE: Final = 2
_SNAPSHOT, _UPDATE = schema_of(ShareSnapshotKey).key, schema_of(ShareUpdateKey).key


class ShareRecord(NamedTuple):
    """Record of a share partition; None is a tombstone."""

    key: ShareKey
    value: ShareState | ShareUpdate | None


def encode_share_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return key and value."""
    group_id, topic_id, partition = record.key
    value = record.value
    if isinstance(value, ShareUpdate):
        key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
        return _encoded(_UPDATE, key), _encoded(VERSION, _update_message(value))
    snapshot_key = _encoded(_SNAPSHOT, ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition))
    return snapshot_key, None if value is None else _encoded(VERSION, _snapshot_message(value))


def decode_share_record(key: bytes, value: bytes | None) -> ShareRecord:
    """Return the record. Raises UnknownRecordTypeError for undeclared types, ProtocolError for invalid bytes."""
    record_type = _read_prefix(key)
    if record_type not in (_SNAPSHOT, _UPDATE):
        raise UnknownRecordTypeError(f"unknown share state record type {record_type}")
    if record_type == _UPDATE:
        of_update = decode(ShareUpdateKey, VERSION, key, _PREFIX_SIZE)
        share_key = ShareKey(of_update.group_id, of_update.topic_id, of_update.partition)
    else:
        of_snapshot = decode(ShareSnapshotKey, VERSION, key, _PREFIX_SIZE)
        share_key = ShareKey(of_snapshot.group_id, of_snapshot.topic_id, of_snapshot.partition)
    if value is None:
        return ShareRecord(share_key, None)
    version = _read_prefix(value)
    if record_type == _UPDATE:
        return ShareRecord(share_key, _update(decode(ShareUpdateValue, version, value, _PREFIX_SIZE)))
    return ShareRecord(share_key, _state(decode(ShareSnapshotValue, version, value, _PREFIX_SIZE)))


def _encoded(prefix: int | None, message: object) -> bytes:
    assert prefix is not None
    out = bytearray(prefix.to_bytes(_PREFIX_SIZE))
    encode(message, VERSION, out)
    return bytes(out)


def _read_prefix(data: bytes) -> int:
    if len(data) < _PREFIX_SIZE:
        raise ProtocolError(f"a share state record of {len(data)} bytes holds no type")
    return int.from_bytes(data[:_PREFIX_SIZE], signed=True)


def _snapshot_message(state: ShareState) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_stored(state.batches),
    )


def _update_message(update: ShareUpdate) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=_stored(update.batches),
    )


def _state(value: ShareSnapshotValue) -> ShareState:
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_loaded(value.state_batches),
        create_ms=value.create_timestamp,
        write_ms=value.write_timestamp,
    )


def _update(value: ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_loaded(value.state_batches),
    )


def _stored(batches: Batches) -> list[ShareStateBatch]:
    return [
        ShareStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def _loaded(batches: Iterable[ShareStateBatch]) -> Batches:
    return in_order(
        tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in batches
        )
    )

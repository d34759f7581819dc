"""Control records: read by nodes and consumers, never returned to applications.

key     int16 version (0), int16 type
value   transaction markers (abort, commit): int16 version (0), int32 coordinator epoch
        other types: int16 version, then the message of that name in flexible encoding, which kwire.cluster owns
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kwire.protocol.records import InvalidRecordsError, Record, decode_batch, encode_batch

EPOCH_PER_TRANSACTION: Final = 2
"""transaction.version with which a producer receives a new epoch with every EndTxn (KIP-890).

The marker of the transaction has this next epoch.
"""
_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")


class ControlRecordType(IntEnum):
    """Type field of a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(slots=True, kw_only=True, frozen=True)
class EndTransactionMarker:
    """Marker that ends one producer's transaction in one partition."""

    is_commit: bool
    coordinator_epoch: int


def control_record_key(control_type: ControlRecordType) -> bytes:
    return _KEY.pack(0, control_type)


def control_record_type(key: bytes | None) -> int:
    """Return the type number, which may be unknown to this version."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordsError("a control record has no key")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordsError(f"control record key of version {version}")
    return int(control_type)


def encode_marker_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """Return a control batch that ends a transaction."""
    control_type = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
    record = Record(
        key=control_record_key(control_type),
        value=_MARKER_VALUE.pack(0, marker.coordinator_epoch),
        timestamp=timestamp,
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def decode_marker(batch: bytes | bytearray | memoryview) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if the batch is empty (compacted away) or of another type."""
    records = decode_batch(batch)
    if not records:
        return None
    control_type = control_record_type(records[0].key)
    if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    value = records[0].value
    if value is None or len(value) < _MARKER_VALUE.size:
        raise InvalidRecordsError("a transaction marker has no value")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecordsError(f"transaction marker of version {version}")
    return EndTransactionMarker(
        is_commit=control_type == ControlRecordType.COMMIT, coordinator_epoch=int(coordinator_epoch)
    )

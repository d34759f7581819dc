"""Control batches of the metadata log, which KRaft itself writes between the controller's records.

Their keys and types are in kwire.protocol.control_records; each value is a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kwire.cluster.metadata.features import KRAFT_VERSION_LEVEL
from kwire.protocol.codec import decode, encode
from kwire.protocol.control_records import ControlRecordType, control_record_key, control_record_type
from kwire.protocol.error_codes import UnknownRecordTypeError
from kwire.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kwire.protocol.records import Record, encode_batch


def control_batch(
    records: Sequence[tuple[ControlRecordType, Any]], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytearray:
    """Return one control batch with these messages."""
    return encode_batch(
        [
            Record(key=control_record_key(kind), value=_encoded(message), timestamp=timestamp_ms)
            for kind, message in records
        ],
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        control=True,
    )


_MESSAGES: Mapping[int, type[Any]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


def decode_control(record: Record) -> tuple[ControlRecordType, Any]:
    """Return the type and the message of one record of a control batch.

    Raises ProtocolError for a message that cannot be read, UnknownRecordTypeError for a type that is not KRaft's.
    """
    kind = control_record_type(record.key)
    message = _MESSAGES.get(kind)
    if message is None:
        raise UnknownRecordTypeError(f"unknown control record type {kind}")
    return ControlRecordType(kind), decode(message, 0, record.value or b"")


def _encoded(message: Any) -> bytes:
    out = bytearray()
    encode(message, 0, out)
    return bytes(out)


def leader_change(leader_id: int) -> tuple[ControlRecordType, Any]:
    """Return the first record of a leader's epoch; in a quorum of one, the leader voted for itself."""
    voters = [LeaderChangeVoter(voter_id=leader_id)]
    message = LeaderChangeMessage(leader_id=leader_id, voters=voters, granting_voters=list(voters))
    return ControlRecordType.LEADER_CHANGE, message


def kraft_version() -> tuple[ControlRecordType, Any]:
    """Return the record for a quorum whose voters are identified by directory id and may change."""
    return ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=KRAFT_VERSION_LEVEL)


def snapshot_header(last_contained_timestamp_ms: int) -> tuple[ControlRecordType, Any]:
    return ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(
        last_contained_log_timestamp=last_contained_timestamp_ms
    )


def snapshot_footer() -> tuple[ControlRecordType, Any]:
    return ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord()

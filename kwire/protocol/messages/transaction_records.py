"""Records of __transaction_state: transactional ids and their transactions (KIP-98).

A key begins with its record type as an int16, which is the schema's key, and a value with its version as an int16. A
null value is a tombstone.

1  flexible: fields of transactions v2 are tagged, so that older brokers skip them (KIP-890, KIP-915)
"""

from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError
from kwire.protocol.primitives import int8, int16, int32, int64, string
from kwire.protocol.schema import field, message, schema_of, struct


@message(key=0, kind="data", versions="0")
class TransactionLogKey:
    transactional_id: string = field("0")


@struct
class TransactionPartitions:
    topic: string = field("0+")
    partition_ids: list[int32] = field("0+")


@message(key=0, kind="data", versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: int64 = field("0+")
    previous_producer_id: int64 = field("1+", tag=0, tagged="1+", default=-1)
    """Producer id of the previous state; after a change of the id, a client may retry with it."""
    next_producer_id: int64 = field("1+", tag=1, tagged="1+", default=-1)
    """Producer id after the end of the transaction, if its epochs are exhausted."""
    producer_epoch: int16 = field("0+")
    next_producer_epoch: int16 = field("1+", tag=3, tagged="1+", default=-1)
    """Producer epoch for next_producer_id."""
    transaction_timeout_ms: int32 = field("0+")
    transaction_status: int8 = field("0+")
    """0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete abort, 6 dead,
    7 prepare epoch fence."""
    transaction_partitions: list[TransactionPartitions] | None = field("0+", nullable="0+")
    """None in state Empty; an empty list in the complete states."""
    transaction_last_update_timestamp_ms: int64 = field("0+")
    transaction_start_timestamp_ms: int64 = field("0+")
    """-1 in state Empty; the complete states keep the time of their transaction."""
    client_transaction_version: int16 = field("1+", tag=2, tagged="1+")
    """0 and 1 are the classic protocol, 2 has an epoch per transaction."""


_PREFIX_SIZE = 2


def encode_transaction_key(transactional_id: str) -> bytes:
    out = bytearray(_PREFIX_SIZE)
    encode(TransactionLogKey(transactional_id=transactional_id), 0, out)
    return bytes(out)


def decode_transaction_key(data: bytes) -> str:
    """Return the transactional id. Raises UnknownRecordTypeError for undeclared types."""
    record_type = _read_prefix(data)
    if record_type != schema_of(TransactionLogKey).key:
        raise UnknownRecordTypeError(f"unknown transaction record type {record_type}")
    return decode(TransactionLogKey, 0, data, _PREFIX_SIZE).transactional_id


def encode_transaction_value(value: TransactionLogValue, version: int) -> bytes:
    out = bytearray(version.to_bytes(_PREFIX_SIZE))
    encode(value, version, out)
    return bytes(out)


def decode_transaction_value(data: bytes) -> TransactionLogValue:
    return decode(TransactionLogValue, _read_prefix(data), data, _PREFIX_SIZE)


def _read_prefix(data: bytes) -> int:
    if len(data) < _PREFIX_SIZE:
        raise ProtocolError(f"a transaction record of {len(data)} bytes holds no type")
    return int.from_bytes(data[:_PREFIX_SIZE], signed=True)

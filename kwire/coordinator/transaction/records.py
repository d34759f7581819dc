"""Records of __transaction_state: a transactional id with its state, or a tombstone.

As in Kafka, version 1 always contains the previous producer id, and the next one only if the epochs are exhausted.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.coordinator.transaction.states import NOT_OPEN, PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import Transaction
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.transaction_records import (
    TransactionLogValue,
    TransactionPartitions,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)

_STORED = NOT_OPEN | PREPARED | {TransactionState.ONGOING}


class TransactionRecord(NamedTuple):
    """Stored state of a transactional id; None is a tombstone."""

    transactional_id: str
    transaction: Transaction | None


def encode_transaction_record(record: TransactionRecord, *, version: int) -> tuple[bytes, bytes | None]:
    """Return key and value; `version` is that of the value: 1 has the fields of transaction.version 1 and later."""
    key = encode_transaction_key(record.transactional_id)
    if record.transaction is None:
        return key, None
    return key, encode_transaction_value(_value(record.transaction, version), version)


def decode_transaction_record(key: bytes, value: bytes | None) -> TransactionRecord:
    transactional_id = decode_transaction_key(key)
    if value is None:
        return TransactionRecord(transactional_id, None)
    return TransactionRecord(transactional_id, _transaction(transactional_id, decode_transaction_value(value)))


def _value(transaction: Transaction, version: int) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(index)
    has_none = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if has_none
        else [TransactionPartitions(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return value


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.producer_id if value.previous_producer_id < 0 else value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=_state(value.transaction_status),
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _state(status: int) -> TransactionState:
    if status not in _STORED:
        raise ProtocolError(f"no transaction is stored in state {status}")
    return TransactionState(status)

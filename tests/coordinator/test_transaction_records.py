"""Records of the transaction coordinator: byte for byte as Apache Kafka 4.3.1 writes them.

The bytes were read from a broker's __transaction_state after the same requests; ids and names are shortened.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.transaction.records import (
    TransactionRecord,
    decode_transaction_record,
    encode_transaction_record,
)
from kwire.coordinator.transaction.states import TransactionState
from kwire.coordinator.transaction.transaction import Transaction
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError

S = TransactionState
TIMEOUT = "0000ea60"
UPDATED, STARTED = "000001a2033ddfa2", "000001a2033ddfa0"
NO_START = "ffffffffffffffff"
PARTITIONS = "02" + "0274" + "03" + "00000000" + "00000001"
"""Topic t with the partitions 0 and 1, encoded."""


def transaction(state: TransactionState, epoch: int, **more: object) -> Transaction:
    given: dict[str, object] = {
        "transactional_id": "x",
        "producer_id": 0x26,
        "producer_epoch": epoch,
        "previous_producer_id": 0x26,
        "timeout_ms": 60_000,
        "state": state,
        "start_ms": int(STARTED, 16),
        "last_update_ms": int(UPDATED, 16),
    }
    return Transaction(**(given | more))  # type: ignore[arg-type]


HELD = frozenset({("t", 0), ("t", 1)})
PREVIOUS = "0008" + "0000000000000026"
NEXT = "0108" + "0000000000000027"
CLIENT = "0202" + "0002"
CASES = [
    (transaction(S.EMPTY, 0, start_ms=-1), f"0000 00 00 {UPDATED} {NO_START} 01 {PREVIOUS}"),
    (transaction(S.ONGOING, 0, partitions=HELD), f"0000 01 {PARTITIONS} 00 {UPDATED} {STARTED} 01 {PREVIOUS}"),
    (transaction(S.PREPARE_ABORT, 0, partitions=HELD), f"0000 03 {PARTITIONS} 00 {UPDATED} {STARTED} 01 {PREVIOUS}"),
    (transaction(S.COMPLETE_COMMIT, 0), f"0000 04 01 {UPDATED} {STARTED} 01 {PREVIOUS}"),
    (
        transaction(S.PREPARE_COMMIT, 1, partitions=HELD, client_version=EPOCH_PER_TRANSACTION),
        f"0001 02 {PARTITIONS} 00 {UPDATED} {STARTED} 02 {PREVIOUS} {CLIENT}",
    ),
    (
        transaction(S.COMPLETE_ABORT, 1, client_version=EPOCH_PER_TRANSACTION),
        f"0001 05 01 {UPDATED} {STARTED} 02 {PREVIOUS} {CLIENT}",
    ),
    (
        transaction(
            S.PREPARE_COMMIT,
            0x7FFF,
            partitions=HELD,
            client_version=EPOCH_PER_TRANSACTION,
            next_producer_id=0x27,
        ),
        f"7fff 02 {PARTITIONS} 00 {UPDATED} {STARTED} 03 {PREVIOUS} {NEXT} {CLIENT}",
    ),
    (
        transaction(
            S.COMPLETE_COMMIT, 0, producer_id=0x27, previous_producer_id=0x26, client_version=EPOCH_PER_TRANSACTION
        ),
        f"0000 04 01 {UPDATED} {STARTED} 02 {PREVIOUS} {CLIENT}",
    ),
]


@pytest.mark.parametrize(("value", "layout"), CASES)
def test_a_value_is_what_kafka_writes(value: Transaction, layout: str) -> None:
    epoch, state, rest = layout.replace(f" {PARTITIONS} 00 ", f" {PARTITIONS}00 ").split(" ", 2)
    expected = bytes.fromhex(f"0001 {value.producer_id:016x} {epoch} {TIMEOUT} {state} {rest}")
    key, stored = encode_transaction_record(TransactionRecord("x", value), version=1)
    assert key == b"\0\0" + b"\0\1x"
    assert stored is not None
    assert stored.hex() == expected.hex()
    assert decode_transaction_record(key, stored) == TransactionRecord("x", value)


def test_version_0_leaves_out_the_fields_of_version_1() -> None:
    value = transaction(S.ONGOING, 3, partitions=HELD, client_version=EPOCH_PER_TRANSACTION)
    key, stored = encode_transaction_record(TransactionRecord("x", value), version=0)
    assert stored is not None
    partitions = "00000001" + "000174" + "00000002" + "00000000" + "00000001"
    assert stored.hex() == f"0000{0x26:016x}0003{TIMEOUT}01{partitions}{UPDATED}{STARTED}"
    again = decode_transaction_record(key, stored).transaction
    assert again == transaction(S.ONGOING, 3, partitions=HELD)


def test_a_tombstone_has_no_value_and_decodes_to_no_transaction() -> None:
    key, stored = encode_transaction_record(TransactionRecord("x", None), version=1)
    assert stored is None
    assert decode_transaction_record(key, None) == TransactionRecord("x", None)


def test_a_record_of_another_type_raises_unknown_record_type() -> None:
    with pytest.raises(UnknownRecordTypeError):
        decode_transaction_record(b"\0\7\0\1x", b"")


@pytest.mark.parametrize("status", ["06", "07", "09", "ff"])
def test_a_state_that_is_never_stored_is_rejected(status: str) -> None:
    value = encode_transaction_record(TransactionRecord("x", transaction(S.EMPTY, 0)), version=0)[1]
    assert value is not None
    at = 2 + 8 + 2 + 4
    with pytest.raises(ProtocolError):
        decode_transaction_record(b"\0\0\0\1x", value[:at] + bytes.fromhex(status) + value[at + 1 :])


NAMES = st.text(min_size=1, max_size=10).filter(lambda text: text.isprintable())
STAMPS = st.integers(-1, 2**62)


@given(
    transactional_id=NAMES,
    ids=st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(-1, 2**62)),
    epoch=st.integers(0, 2**15 - 1),
    state=st.sampled_from([S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT]),
    partitions=st.frozensets(st.tuples(NAMES, st.integers(0, 100)), min_size=1, max_size=5),
    stamps=st.tuples(STAMPS, STAMPS),
    version=st.sampled_from([0, 1, 2]),
)
def test_encoded_records_are_decoded(
    transactional_id: str,
    ids: tuple[int, int, int],
    epoch: int,
    state: TransactionState,
    partitions: frozenset[tuple[str, int]],
    stamps: tuple[int, int],
    version: int,
) -> None:
    value = Transaction(
        transactional_id=transactional_id,
        producer_id=ids[0],
        previous_producer_id=ids[1],
        next_producer_id=ids[2],
        producer_epoch=epoch,
        timeout_ms=1000,
        state=state,
        partitions=partitions,
        start_ms=stamps[0],
        last_update_ms=stamps[1],
        client_version=version,
    )
    record = TransactionRecord(transactional_id, value)
    assert decode_transaction_record(*encode_transaction_record(record, version=1)) == record

"""Idempotence and transactions in one log."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from kwire.log import lookup
from kwire.log.batch_validation import AppendOrigin
from kwire.log.disk import RealDisk
from kwire.log.producer_snapshots import CorruptSnapshotError, ProducerSnapshots, decode_snapshot, encode_snapshot
from kwire.log.producer_state import ProducerEntry, ProducerState, StoredBatch
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.wrapping import SEQUENCE_MAX
from tests.log.support import NOW_MS, batch, headers, marker, open_at

DAY_MS = 24 * 3600 * 1000


def send(log, sequence, *, epoch=0, producer_id=1, count=1, transactional=False):
    contents = [b"value"] * count
    data = batch(
        *contents, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, transactional=transactional
    )
    return log.append(data, leader_epoch=0)


def end(log, *, commit, epoch=0, producer_id=1, coordinator_epoch=0, transaction_version=0):
    return log.append(
        marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch),
        leader_epoch=0,
        origin=AppendOrigin.COORDINATOR,
        transaction_version=transaction_version,
    )


def rejection(call, *args, **kwargs):
    with pytest.raises(KafkaError) as caught:
        call(*args, **kwargs)
    return caught.value.code


def test_each_of_the_last_five_batches_finds_its_offset(tmp_path):
    log = open_at(tmp_path)
    for sequence in range(0, 14, 2):
        assert not send(log, sequence, count=2).is_duplicate
    for sequence in range(4, 14, 2):
        repeated = send(log, sequence, count=2)
        assert (repeated.base_offset, repeated.last_offset, repeated.is_duplicate) == (sequence, sequence + 1, True)
    assert rejection(send, log, 2, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 14


def test_a_duplicate_answers_with_its_own_timestamp(tmp_path):
    log = open_at(tmp_path)
    send(log, 0)
    assert send(log, 0).log_append_time_ms == NOW_MS


@pytest.mark.parametrize("sequence", [2, 5, 0])
def test_a_gap_in_the_sequence_is_rejected(tmp_path, sequence):
    log = open_at(tmp_path)
    send(log, 0, count=1)
    if sequence == 0:  # same first sequence, other last sequence: not a duplicate
        assert rejection(send, log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    else:
        assert rejection(send, log, sequence) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1


def test_an_unknown_producer_may_begin_anywhere(tmp_path):
    log = open_at(tmp_path)
    assert send(log, 17).base_offset == 0
    assert send(log, 18).base_offset == 1


def test_sequences_wrap_to_zero_after_int32_max(tmp_path):
    log = open_at(tmp_path)
    send(log, SEQUENCE_MAX - 1, count=4)
    assert log.producers.active()[0].last_sequence == 1
    assert send(log, SEQUENCE_MAX - 1, count=4).is_duplicate
    assert send(log, 2).base_offset == 4
    send(log, SEQUENCE_MAX, producer_id=2)
    assert send(log, 0, producer_id=2).base_offset == 6


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(tmp_path):
    log = open_at(tmp_path)
    send(log, 0, epoch=3)
    assert rejection(send, log, 1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rejection(send, log, 5, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=4).base_offset == 1


def test_the_last_stable_offset_waits_for_the_marker_and_for_replication(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(), leader_epoch=0)
    send(log, 0, transactional=True)
    send(log, 0, producer_id=2, transactional=True)
    assert log.last_stable_offset(3) == 1
    assert log.last_stable_offset(1) == 1
    end(log, commit=True)
    assert log.last_stable_offset(3) == 1  # the marker is at 3, which is not replicated
    assert log.last_stable_offset(4) == 2
    end(log, commit=False, producer_id=2)
    assert log.last_stable_offset(5) == 5


def test_aborted_transactions_are_listed_for_overlapping_offset_ranges(tmp_path):
    log = open_at(tmp_path)
    send(log, 0, transactional=True, count=3)  # 0..2, aborted at 4
    send(log, 0, transactional=True, producer_id=2)  # 3, aborted at 5
    end(log, commit=False)
    end(log, commit=False, producer_id=2)
    send(log, 3, transactional=True)  # 6, committed at 7
    end(log, commit=True)
    found = log.aborted_transactions(0, 8)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in found] == [(1, 0, 4), (2, 3, 5)]
    assert [entry.last_stable_offset for entry in found] == [3, 6]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 3)] == [1]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 4)] == [1, 2]
    assert [entry.producer_id for entry in log.aborted_transactions(5, 8)] == [2]
    assert log.aborted_transactions(6, 8) == []


def test_a_read_returns_only_its_own_aborted_transactions(tmp_path):
    log = open_at(tmp_path)
    for number in range(200):
        send(log, 0, producer_id=number, transactional=True)
        end(log, commit=False, producer_id=number)
    send(log, 0, producer_id=1000, transactional=True)
    data = log.read(100, 1000)
    end_offset = lookup.end_offset_of(data)
    assert end_offset == headers(data)[-1].next_offset < 120
    named = log.aborted_transactions(100, end_offset)
    assert [entry.first_offset for entry in named] == list(range(100, end_offset, 2))
    assert log.aborted_transactions(400, 401) == []


def test_a_read_looks_at_the_aborted_transactions_near_it_only(tmp_path, monkeypatch):
    log = open_at(tmp_path)
    for number in range(200):
        send(log, 0, producer_id=number, transactional=True)
        end(log, commit=False, producer_id=number)
    looked_at = []
    marker_offset = lookup._marker_offset

    def noted(entry):
        looked_at.append(entry)
        return marker_offset(entry)

    monkeypatch.setattr(lookup, "_marker_offset", noted)
    named = log.aborted_transactions(300, 304)
    assert [entry.first_offset for entry in named] == [300, 302]
    assert len(looked_at) <= 10, "found by bisection"


def test_a_plain_write_in_an_open_transaction_is_rejected(tmp_path):
    log = open_at(tmp_path)
    send(log, 0, transactional=True)
    assert rejection(send, log, 1) is ErrorCode.INVALID_TXN_STATE


def test_markers_are_fenced_by_epoch_and_coordinator(tmp_path):
    log = open_at(tmp_path)
    send(log, 0, epoch=5, transactional=True)
    assert rejection(end, log, commit=True, epoch=4) is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, commit=True, epoch=5, coordinator_epoch=7)
    send(log, 1, epoch=5, transactional=True)
    assert rejection(end, log, commit=True, epoch=5, coordinator_epoch=6) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.producers.has_ongoing_transaction(1, 5)


def test_under_transactions_v2_a_marker_must_have_a_newer_epoch(tmp_path):
    log = open_at(tmp_path)
    send(log, 0, epoch=5, transactional=True)
    late = rejection(end, log, commit=True, epoch=5, transaction_version=2)
    assert late is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, commit=True, epoch=6, transaction_version=2)
    assert log.last_stable_offset(2) == 2
    end(log, commit=True, epoch=6, transaction_version=2)  # a retry of it, with no open transaction
    assert log.log_end_offset == 3


def test_silent_producers_are_forgotten_but_not_open_transactions(tmp_path):
    log = open_at(tmp_path)
    send(log, 0)
    send(log, 0, producer_id=2, transactional=True)
    assert log.producers.expire(NOW_MS + DAY_MS - 1, DAY_MS) == 0
    assert log.producers.expire(NOW_MS + DAY_MS, DAY_MS) == 1
    assert [entry.producer_id for entry in log.producers.active()] == [2]


def test_truncation_restores_earlier_producer_state(tmp_path):
    log = open_at(tmp_path)
    for sequence in range(4):
        send(log, sequence)
    send(log, 0, producer_id=2, transactional=True)
    log.truncate_to(2)
    assert [entry.producer_id for entry in log.producers.active()] == [1]
    assert send(log, 2).base_offset == 2
    assert log.last_stable_offset(3) == 3


def test_truncation_removes_later_aborted_transactions(tmp_path):
    log = open_at(tmp_path)
    send(log, 0, transactional=True)
    end(log, commit=False)
    assert len(log.aborted_transactions(0, 2)) == 1
    log.truncate_to(1)
    assert log.aborted_transactions(0, 2) == []
    end(log, commit=True)
    assert log.aborted_transactions(0, 2) == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_producer_snapshot_of_truncated_records_is_not_used(tmp_path, clean):
    log = open_at(tmp_path)
    for sequence in range(4):
        send(log, sequence)
    log.close(clean=True)
    log = open_at(tmp_path, clean=True)
    log.truncate_to(2)
    for sequence in range(2):
        send(log, sequence, producer_id=2)
    log.roll()  # at the offset of a snapshot that contained sequence 3
    log.flush()
    log.close(clean=clean)
    again = open_at(tmp_path, clean=clean, recovery_point=log.recovery_point)
    assert {entry.producer_id: entry.last_sequence for entry in again.producers.active()} == {1: 1, 2: 1}
    assert send(again, 2).base_offset == 4


# Snapshots


def test_producer_snapshots_round_trip_and_detect_damage():
    entries = [
        ProducerEntry(
            producer_id=1,
            producer_epoch=2,
            coordinator_epoch=3,
            last_timestamp=NOW_MS,
            current_transaction_first_offset=40,
            batches=[StoredBatch(7, 44, 2, NOW_MS)],
        ),
        ProducerEntry(producer_id=2, producer_epoch=0),
    ]
    data = encode_snapshot(entries)
    assert len(data) == 10 + 2 * 46
    assert decode_snapshot(data, "x") == entries
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(data[:length], "x")
    for position in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :], "x")


def test_a_producer_snapshot_whose_count_does_not_match_its_size_is_rejected():
    body = struct.pack(">i", 2) + encode_snapshot([ProducerEntry(producer_id=1)])[10:]
    data = struct.pack(">hI", 1, crc32c(body)) + body
    with pytest.raises(CorruptSnapshotError, match="2 producers announced"):
        decode_snapshot(data, "x")


def test_an_entry_without_a_producer_id_is_left_out_of_the_state(tmp_path):
    """Apache Kafka's ProducerStateManager skips such an entry too."""
    snapshots = ProducerSnapshots(RealDisk(), str(tmp_path), [5])
    entries = [ProducerEntry(producer_id=-1, current_transaction_first_offset=3), ProducerEntry(producer_id=4)]
    (tmp_path / "00000000000000000005.snapshot").write_bytes(encode_snapshot(entries))
    state = ProducerState()
    snapshots.load_latest(state, 0, 5)
    assert (list(state.entries), state.first_unstable_offset(5), state.end_offset) == ([4], None, 5)


def test_the_newest_sound_snapshot_is_used(tmp_path):
    snapshots = ProducerSnapshots(RealDisk(), str(tmp_path))
    for offset in (5, 9, 12):
        state = ProducerState()
        state.put_all([ProducerEntry(producer_id=offset)])
        snapshots.write(state, offset)
    (tmp_path / "00000000000000000009.snapshot").write_bytes(b"broken")
    state = ProducerState()
    snapshots.load_latest(state, 0, 11)
    assert (list(state.entries), state.end_offset, snapshots.offsets) == ([5], 5, [5, 12])
    snapshots.load_latest(state, 6, 11)
    assert (list(state.entries), state.end_offset) == ([], 6)


def test_stray_snapshots_are_removed(tmp_path):
    snapshots = ProducerSnapshots(RealDisk(), str(tmp_path))
    for offset in (3, 5, 7, 20):
        snapshots.write(ProducerState(), offset)
    snapshots.remove_strays({0, 5, 10})
    assert snapshots.offsets == [5, 20]
    snapshots.remove_strays({0, 30})
    assert snapshots.offsets == []
    assert list(tmp_path.iterdir()) == []


def test_the_first_open_transaction_of_a_snapshot_is_found_in_any_order():
    entries = [ProducerEntry(producer_id=number, current_transaction_first_offset=9 - number) for number in range(5)]
    state = ProducerState()
    state.put_all(entries)
    assert state.first_unstable_offset(100) == 5

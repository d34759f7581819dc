"""Producer state against a few lists: batches, duplicates, wraps, epochs, markers, expiration, snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.log.producer_snapshots import decode_snapshot, encode_snapshot
from kwire.log.producer_state import ProducerState
from kwire.protocol.control_records import EndTransactionMarker
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import CONTROL_FLAG, NO_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from kwire.protocol.wrapping import SEQUENCE_MAX
from tests.log.support import NOW_MS

EXPIRATION_MS = 20
SEQUENCES = 2**31
IDS = st.integers(1, 3)


@dataclass
class Known:
    """Model of a producer; batches are (first sequence, count, first offset), newest last."""

    epoch: int
    timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_from: int | None = None
    batches: list[tuple[int, int, int]] = field(default_factory=list)

    def next_sequence(self) -> int:
        first, count, _ = self.batches[-1]
        return (first + count) % SEQUENCES


class ProducerModel(RuleBasedStateMachine):
    """Model test: batches are checked and added as a leader does; the test assigns the offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ProducerState()
        self.known: dict[int, Known] = {}
        self.end = 0
        self.high_watermark = 0
        self.now_ms = NOW_MS
        self.decided: list[tuple[int, int]] = []
        """(first offset, marker's offset) of all transactions that have ended."""

    def header(self, producer: int, epoch: int, sequence: int, count: int, attributes: int) -> BatchHeader:
        return BatchHeader(
            0, 100, 0, 2, 0, attributes, count - 1, self.now_ms, self.now_ms, producer, epoch, sequence, count
        )

    def judged(self, header: BatchHeader) -> tuple[int, int] | ErrorCode | None:
        """Return ProducerState's decision: the offsets of the duplicated batch, an error, or None."""
        try:
            found = self.state.check(header, from_client=True)
        except KafkaError as rejection:
            return rejection.code
        return None if found is None else (found.first_offset, found.last_offset)

    def expected(self, header: BatchHeader) -> tuple[int, int] | ErrorCode | None:
        known = self.known.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch == known.epoch:
            for first, count, offset in known.batches:
                if (first, count) == (header.base_sequence, header.record_count):
                    return offset, offset + count - 1
        if header.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        wanted = known.next_sequence() if header.producer_epoch == known.epoch and known.batches else 0
        if header.base_sequence != wanted:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if known.transaction_from is not None and not header.attributes & TRANSACTIONAL_FLAG:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def send(self, header: BatchHeader) -> None:
        expected = self.expected(header)
        assert self.judged(header) == expected
        if expected is None:
            self.apply_batch(header)

    def apply_batch(self, header: BatchHeader) -> None:
        self.state.update(header, self.end)
        known = self.known.setdefault(header.producer_id, Known(header.producer_epoch))
        if known.epoch != header.producer_epoch:
            known.epoch, known.batches = header.producer_epoch, []
        known.batches = [*known.batches[-4:], (header.base_sequence, header.record_count, self.end)]
        known.timestamp = self.now_ms
        if header.attributes & TRANSACTIONAL_FLAG and known.transaction_from is None:
            known.transaction_from = self.end
        self.end += header.record_count
        self.state.end_offset = self.end

    @rule(producer=IDS, count=st.integers(1, 4), transactional=st.booleans(), over=st.sampled_from([0, 0, 1, 9]))
    def next_batch(self, producer: int, count: int, transactional: bool, over: int) -> None:
        """Send the next expected batch; a new producer's first one ends at the largest sequence number or wraps."""
        known = self.known.get(producer)
        epoch = 0 if known is None else known.epoch
        if known is None:
            sequence = (over - count) % SEQUENCES
        else:
            sequence = known.next_sequence() if known.batches else 0
        self.send(self.header(producer, epoch, sequence, count, TRANSACTIONAL_FLAG if transactional else 0))

    @rule(producer=IDS, back=st.integers(1, 6), count=st.integers(-1, 1))
    def earlier_batch(self, producer: int, back: int, count: int) -> None:
        """Send a duplicate of an earlier batch, or a batch that is almost equal to one."""
        known = self.known.get(producer)
        if known is None or len(known.batches) < back:
            return
        sequence, own_count, _ = known.batches[-back]
        self.send(self.header(producer, known.epoch, sequence, max(1, own_count + count), TRANSACTIONAL_FLAG))

    @rule(producer=IDS, step=st.integers(-1, 1), sequence=st.integers(0, 1), transactional=st.booleans())
    def other_epoch(self, producer: int, step: int, sequence: int, transactional: bool) -> None:
        epoch = max(0, self.known[producer].epoch + step) if producer in self.known else 0
        self.send(self.header(producer, epoch, sequence, 1, TRANSACTIONAL_FLAG if transactional else 0))

    @rule(producer=IDS, ahead=st.integers(1, 5))
    def gap(self, producer: int, ahead: int) -> None:
        known = self.known.get(producer)
        if known is not None and known.batches:
            sequence = (known.next_sequence() + ahead) % SEQUENCES
            self.send(self.header(producer, known.epoch, sequence, 1, TRANSACTIONAL_FLAG))

    @rule(producer=IDS, step=st.integers(-1, 1), coordinator=st.integers(0, 2), commit=st.booleans(), v2=st.booleans())
    def end_transaction(self, producer: int, step: int, coordinator: int, commit: bool, v2: bool) -> None:
        known = self.known.get(producer)
        epoch = max(0, known.epoch + step) if known is not None else 0
        flags = TRANSACTIONAL_FLAG | CONTROL_FLAG
        header = self.header(producer, epoch, NO_SEQUENCE, 1, flags)
        marker = EndTransactionMarker(is_commit=commit, coordinator_epoch=coordinator)
        expected = None
        if known is not None:
            if epoch < known.epoch or (v2 and epoch == known.epoch and known.transaction_from is not None):
                expected = ErrorCode.INVALID_PRODUCER_EPOCH
            elif coordinator < known.coordinator_epoch:
                expected = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        try:
            self.state.check_marker(header, marker, has_next_epoch=v2)
        except KafkaError as rejection:
            assert rejection.code is expected
            return
        assert expected is None
        self.take_in_marker(header, marker)

    def take_in_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        known = self.known.setdefault(header.producer_id, Known(header.producer_epoch))
        begun, known.transaction_from = known.transaction_from, None
        if known.epoch != header.producer_epoch:
            known.epoch, known.batches = header.producer_epoch, []
        known.coordinator_epoch, known.timestamp = marker.coordinator_epoch, self.now_ms
        completed = self.state.update_marker(header, marker, self.end)
        if begun is None:
            assert completed is None
        else:
            assert completed is not None
            assert (completed.first_offset, completed.last_offset) == (begun, self.end)
            assert completed.is_aborted is not marker.is_commit
            assert completed.last_stable_offset == min(self.open_offsets(), default=self.end + 1)
            self.decided.append((begun, self.end))
        self.end += 1
        self.state.end_offset = self.end

    def open_offsets(self) -> list[int]:
        return [known.transaction_from for known in self.known.values() if known.transaction_from is not None]

    @rule(step=st.integers(1, EXPIRATION_MS))
    def time_passes(self, step: int) -> None:
        self.now_ms += step

    @rule()
    def expire(self) -> None:
        silent = [
            producer
            for producer, known in self.known.items()
            if known.transaction_from is None and self.now_ms - known.timestamp >= EXPIRATION_MS
        ]
        assert self.state.expire(self.now_ms, EXPIRATION_MS) == len(silent)
        for producer in silent:
            del self.known[producer]

    @rule()
    def restart_from_a_snapshot(self) -> None:
        """Restart from a snapshot: each producer keeps only its last batch, and all batches count as replicated."""
        data = encode_snapshot(self.state.entries.values())
        self.state = ProducerState()
        self.state.put_all(decode_snapshot(data, "x"))
        self.state.end_offset = self.high_watermark = self.end
        self.decided.clear()
        for known in self.known.values():
            del known.batches[:-1]

    @rule(back=st.integers(0, 6))
    def replicate(self, back: int) -> None:
        """Advance the high watermark close to the log end; it never decreases."""
        self.high_watermark = max(self.end - back, self.high_watermark)
        waiting = [first for first, marker in self.decided if marker >= self.high_watermark]
        expected = min([*waiting, *self.open_offsets()], default=None)
        assert self.state.first_unstable_offset(self.high_watermark) == expected
        self.state.update_high_watermark(self.high_watermark)
        assert self.state.first_unstable_offset(self.high_watermark) == expected
        assert len(self.state._unreplicated) == len(waiting)

    @invariant()
    def entries_agree(self) -> None:
        assert self.state.entries.keys() == self.known.keys()
        for producer, known in self.known.items():
            entry = self.state.entries[producer]
            assert (entry.producer_epoch, entry.coordinator_epoch) == (known.epoch, known.coordinator_epoch)
            assert entry.last_timestamp == known.timestamp
            begun = known.transaction_from
            assert entry.current_transaction_first_offset == (-1 if begun is None else begun)
            assert self.state.has_ongoing_transaction(producer, known.epoch) is (begun is not None)
            found = [(batch.first_sequence, batch.offset_delta + 1, batch.first_offset) for batch in entry.batches]
            assert found == known.batches
            assert all(0 <= batch.last_sequence <= SEQUENCE_MAX for batch in entry.batches)


ProducerModel.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestProducerModel = ProducerModel.TestCase

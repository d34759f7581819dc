"""Invariants of a log that was opened after a power cut; each violation is a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kwire.log.files import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from kwire.log.partition_log import PartitionLog
from tests.crash.disk import RecordingDisk
from tests.crash.ledger import Branch, Expectation, Life
from tests.log.searching import aborted_transactions, offset_for_timestamp


def problems_of(log: PartitionLog | None, expected: Expectation, disk: RecordingDisk, *, probe: int) -> Iterator[str]:
    """Yield the violations as sentences, or none. The bits of `probe` choose the searches that are tried."""
    if log is None:
        if not expected.may_be_missing:
            yield "S4: the partition is not there or did not open, although a flush of it had finished"
        return
    lives = [life for life in expected.lives if log.topic_id in (None, life.topic_id)]
    if not lives:
        yield f"the log has topic id {log.topic_id}, which is none of the topics that may be there"
        return
    found = _match(log, lives, disk)
    if isinstance(found, str):
        yield found
        return
    life, branch, first, count = found
    yield from _offsets(log, life, branch, first, count)
    yield from _names(log, disk)
    yield from _reads(log, branch, first, count, probe)
    yield from _times(log, branch, first, count, probe)
    yield from _derivations(log, life, branch, first, count)


def files_of(log: PartitionLog, disk: RecordingDisk) -> bytes:
    """Return all batches in the files, in order."""
    return b"".join(disk.read(f"{log.directory}/{name}") for name in disk.list(log.directory) if name.endswith(".log"))


def _match(log: PartitionLog, lives: list[Life], disk: RecordingDisk) -> tuple[Life, Branch, int, int] | str:
    """Return (life, branch, index of the first batch, index after the last) of the log's bytes, or a sentence if none
    matches.
    """
    data = files_of(log, disk)
    why = "S4: the log is no prefix of what was appended"
    for life in reversed(lives):
        for branch in reversed(life.branches):
            if not data:
                if log.log_end_offset >= life.durable_end:
                    count = sum(1 for batch in branch.batches if batch.next <= log.log_end_offset)
                    return life, branch, count, count
                why = f"S4: the log is empty, offset {life.durable_end} was durable"
                continue
            position = branch.position_of.get(int.from_bytes(data[:8], "big"))
            if position is None or branch.data[position : position + len(data)] != data:
                continue
            count = branch.index_at.get(position + len(data), -1)
            if count < 0:
                why = "S6: the log does not end with a batch"
            elif branch.batches[count - 1].next < life.durable_end:
                why = f"S4: the log ends at {branch.batches[count - 1].next}, but {life.durable_end} was durable"
            elif life.is_durable and log.topic_id is None:
                why = "partition.metadata is lost, although a flush had finished"
            else:
                return life, branch, branch.index_at[position], count
    return why


def _offsets(log: PartitionLog, life: Life, branch: Branch, first: int, count: int) -> Iterator[str]:
    end = branch.batches[count - 1].next if count > first else log.log_end_offset
    if log.log_end_offset != end:
        yield f"S3: the log's end is {log.log_end_offset}, its last batch ends at {end}"
    if not life.start_min <= log.log_start_offset <= max(life.start_max, life.start_min):
        yield f"the log start is {log.log_start_offset}, not in {life.start_min}..{life.start_max}"
    if count > first and branch.batches[first].base > log.log_start_offset:
        yield f"S4: the first batch is at {branch.batches[first].base}, after the log start {log.log_start_offset}"
    if not log.log_start_offset <= log.log_end_offset or log.recovery_point > log.log_end_offset:
        yield f"S10: start {log.log_start_offset}, recovery point {log.recovery_point}, end {log.log_end_offset}"


def _names(log: PartitionLog, disk: RecordingDisk) -> Iterator[str]:
    left = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")
    for name in disk.list(log.directory):
        if name.endswith(left):
            yield f"{name} is left"


def _reads(log: PartitionLog, branch: Branch, first: int, count: int, probe: int) -> Iterator[str]:
    """Check that a read from any offset finds the batch that a scan finds."""
    readable = [batch for batch in branch.batches[first:count] if batch.next > log.log_start_offset]
    expected = b"".join(batch.data for batch in readable)
    begin = branch.position_of[readable[0].base] if readable else 0
    served, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20)
        served += data
        index = branch.index_at.get(begin + len(served))
        if not data or index is None or not expected.startswith(served):
            yield f"S6: what is served from {offset} on is not what is in the files"
            return
        offset = branch.batches[index - 1].next
    if served != expected:
        yield "S6: what is served is not what is in the files"
    for index, batch in enumerate(readable):
        if (index + probe) % 3 == 0 and log.read(max(batch.next - 1, log.log_start_offset), 1) != batch.data:
            yield f"S8: reading at {batch.next - 1} does not find its batch"


def _times(log: PartitionLog, branch: Branch, first: int, count: int, probe: int) -> Iterator[str]:
    """Check that a search by timestamp finds the record that a scan finds."""
    records = [
        record for batch in branch.batches[first:count] for record in batch.records if record[0] >= log.log_start_offset
    ]
    if not records:
        return
    largest = max(timestamp for _, timestamp in records)
    asked = {records[probe % len(records)][1], records[probe // 3 % len(records)][1] + 1, largest}
    for timestamp in asked:
        expected = next((record for record in records if record[1] >= timestamp), None)
        found = offset_for_timestamp(log, timestamp)
        if (None if found is None else (found.offset, found.timestamp)) != expected:
            yield f"S8: the search for timestamp {timestamp} finds {found}, a scan finds {expected}"


def _derivations(log: PartitionLog, life: Life, branch: Branch, first: int, count: int) -> Iterator[str]:
    model = branch.derived(count)
    start = log.log_start_offset
    forgotten = max(start, life.start_max)
    """If a new log start is not durable yet, its effect on snapshots may be."""
    is_cut = forgotten > 0
    found = {
        entry.producer_id: (entry.producer_epoch, entry.last_sequence, entry.current_transaction_first_offset)
        for entry in log.producers.entries.values()
    }
    for producer, state in model.producers.items():
        # Producers known only from removed batches may be forgotten.
        if is_cut and (model.last_offsets[producer] < forgotten or 0 <= state[2] < forgotten):
            found.pop(producer, None)
        elif is_cut and producer in found and found[producer][1] == -1 != state[1]:
            found.pop(producer)
        elif found.pop(producer, None) != state:
            yield f"S8: producer {producer} should be {state} (epoch, last sequence, first offset), not what it is"
    if found:
        yield f"S8: producers {found} are in no batch"
    first_base = branch.batches[first].base if count > first else log.log_end_offset
    aborted = [each for each in model.aborted if each[2] >= start and each[1] >= first_base]
    served = [
        tuple(each) for each in aborted_transactions(log, start, log.log_end_offset) if each.first_offset >= first_base
    ]
    if _that_matter(served, branch, start, is_cut=is_cut) != _that_matter(aborted, branch, start, is_cut=is_cut):
        yield f"S8: aborted transactions are {served}, should be {aborted}"
    yield from _epochs(log, model.epochs)


def _that_matter(
    aborted: Sequence[tuple[int, ...]], branch: Branch, start: int, *, is_cut: bool
) -> list[tuple[int, ...]]:
    """Return the aborted transactions with records at or above the log start. No reader needs the others, whose
    producers may be forgotten.

    A transaction that was open below the log start may be forgotten too; the last stable offset in the entries then
    differs.
    """
    return [
        each[:3] if is_cut else each
        for each in aborted
        if any(
            batch.producer_id == each[0] and batch.is_commit is None and each[1] <= batch.base < each[2]
            for batch in branch.batches
            if batch.next > start
        )
    ]


def _epochs(log: PartitionLog, model: list[tuple[int, int]]) -> Iterator[str]:
    entries = log.leader_epochs.entries()
    start = log.log_start_offset
    if entries and entries[-1][1] > log.log_end_offset:
        yield f"S9: epoch {entries[-1]} starts behind the end {log.log_end_offset}"
    if any(after[0] <= before[0] or after[1] <= before[1] for before, after in pairwise(entries)):
        yield f"S9: epochs do not increase: {entries}"
    covering = [entry for entry in model if entry[1] <= start]
    expected = [(covering[-1][0], max(start, covering[-1][1]))] if covering else []
    expected += [entry for entry in model if entry[1] > start]
    if log.log_end_offset > start and [entry for entry in entries if entry[1] < log.log_end_offset] != expected:
        yield f"S9: epochs are {entries}, the batches say {expected}"

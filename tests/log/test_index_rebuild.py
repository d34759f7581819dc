"""Wrong indexes are rebuilt in steps; a caller that needs one repeats its call until the rebuild is complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from kwire.log.config import INDEX_INTERVAL_BYTES_MAX, LogConfig
from kwire.log.errors import CorruptLogError, NotReadyError
from kwire.log.future_logs import Copying
from kwire.log.index_rebuild import BATCHES_AT_ONCE
from kwire.log.partition_log import PartitionLog
from kwire.log.scrubbing import one_pass
from kwire.log.segments import SEGMENTS_AT_ONCE
from tests.log.searching import max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, batch, headers, open_at

CONFIG = LogConfig(segment_bytes=10 * 1024**2)
BATCHES = 5 * BATCHES_AT_ONCE + 7
STEPS = 5
"""Number of steps in a rebuild, without the last one."""


def filled(directory: Path, *, is_closed: bool = True) -> PartitionLog:
    """Return a log with a segment of many batches, closed and followed by another if needed; cleanly stopped."""
    log = open_at(directory, CONFIG)
    for number in range(BATCHES):
        log.append(batch(b"v", timestamp=NOW_MS + number), leader_epoch=0)
    if is_closed:
        log.roll()
        log.append(batch(b"v", timestamp=NOW_MS + BATCHES), leader_epoch=0)
    log.close(clean=True)
    return log


def reopened(directory: Path, config: LogConfig = CONFIG) -> PartitionLog:
    return open_at(directory, config, clean=True, recovery_point=BATCHES)


def first_index(directory: Path) -> Path:
    return directory / f"{0:020d}.index"


def spoil_entry(directory: Path, number: int) -> None:
    """Make an entry of the first segment's index point to a position where no batch starts."""
    data = bytearray(first_index(directory).read_bytes())
    data[8 * number + 7] ^= 1
    first_index(directory).write_bytes(data)


def steps_until_ready(call: Callable[[], object]) -> int:
    """Return the number of repeated calls until one succeeds."""
    steps = 0
    while True:
        try:
            call()
        except NotReadyError:
            steps += 1
        else:
            return steps


def is_whole(log: PartitionLog) -> bool:
    """Return True if each offset of the first segment is found, and its index entries are dense enough."""
    segment = log.segments.first
    assert segment.is_loaded
    positions = [0, *(position for _, position in segment.offset_index.entries()), segment.size]
    assert max(after - before for before, after in pairwise(positions)) < 4096 + 200
    return all(headers(log.read(offset, 1))[0].base_offset == offset for offset in range(0, BATCHES, 11))


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.read(BATCHES // 2, 1),
        lambda log: log.read(BATCHES // 2, 100_000, min_one_batch=False),
        lambda log: log.max_timestamp(),
        lambda log: log.batch_for_timestamp(NOW_MS + 7, 0),
        lambda log: log.aborted_transactions(0, 10),
        lambda log: log.check_stored(log.segments.first, 0, 65536),
        lambda log: log.apply_retention(NOW_MS, BATCHES),
    ],
    ids=["read", "read-some", "max-timestamp", "timestamp", "aborted", "scrub", "retention"],
)
def test_a_missing_index_is_rebuilt_in_steps(tmp_path: Path, ask: Callable[[PartitionLog], object]) -> None:
    filled(tmp_path)
    first_index(tmp_path).unlink()
    log = reopened(tmp_path)
    assert steps_until_ready(lambda: ask(log)) == STEPS
    assert steps_until_ready(lambda: ask(log)) == 0
    assert is_whole(log)
    log.close(clean=True)
    assert steps_until_ready(lambda: reopened(tmp_path).read(9, 1)) == 0, "what was made again is written"


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_entry_that_names_no_batch_is_found_in_steps(tmp_path: Path, is_closed: bool) -> None:
    filled(tmp_path, is_closed=is_closed)
    spoil_entry(tmp_path, 3)
    log = reopened(tmp_path)
    segment = log.segments.first
    (offset, _) = segment.offset_index.entries()[3] if segment.is_loaded else (4 * 60, 0)
    last = log.log_end_offset - 1
    assert headers(log.read(last, 1))[0].base_offset == last
    assert steps_until_ready(lambda: log.read(offset, 1)) == STEPS
    assert is_whole(log)


def test_records_appended_between_two_rebuild_steps_are_indexed(tmp_path: Path) -> None:
    filled(tmp_path, is_closed=False)
    spoil_entry(tmp_path, 3)
    log = reopened(tmp_path)
    offset = log.segments.first.offset_index.entries()[3][0]
    while True:
        try:
            log.read(offset, 1)
            break
        except NotReadyError:
            for _ in range(150):
                log.append(batch(b"v", timestamp=NOW_MS + log.log_end_offset), leader_epoch=0)
    assert log.log_end_offset > BATCHES + 500
    assert is_whole(log)
    for number in range(0, log.log_end_offset, 17):
        assert headers(log.read(number, 1))[0].base_offset == number
        found = offset_for_timestamp(log, NOW_MS + number)
        assert found is not None
        assert found.offset == number
    end = log.log_end_offset
    log.roll()
    log.close(clean=True)
    again = open_at(tmp_path, CONFIG, clean=True, recovery_point=end)
    assert steps_until_ready(lambda: again.read(7, 1)) == 0
    assert is_whole(again)


@pytest.mark.parametrize("cut", [100, BATCHES - 3])
def test_a_truncation_between_two_rebuild_steps_restarts_the_rebuild(tmp_path: Path, cut: int) -> None:
    filled(tmp_path, is_closed=False)
    spoil_entry(tmp_path, 3)
    log = reopened(tmp_path)
    offset = log.segments.first.offset_index.entries()[3][0]
    for _ in range(2):
        with pytest.raises(NotReadyError):
            log.read(offset, 1)
    log.truncate_to(cut)
    assert log.log_end_offset == cut
    for number in range(500):
        log.append(batch(b"w" * (number % 5)), leader_epoch=1)
    steps_until_ready(lambda: log.read(offset, 1))
    for number in range(0, cut + 500, 13):
        steps_until_ready(partial(log.read, number, 1))
        assert headers(log.read(number, 1))[0].base_offset == number


def test_a_truncation_waits_until_the_index_is_rebuilt(tmp_path: Path) -> None:
    filled(tmp_path)
    first_index(tmp_path).unlink()
    log = reopened(tmp_path)
    for _ in range(STEPS):
        with pytest.raises(NotReadyError):
            log.cut_to(BATCHES // 2)
        assert (log.log_end_offset, log.recovery_point, len(log.segments)) == (BATCHES + 1, BATCHES + 1, 2)
    log.truncate_to(BATCHES // 2)
    assert log.log_end_offset == BATCHES // 2
    assert log.append(batch(b"v"), leader_epoch=1).base_offset == BATCHES // 2


def test_a_sparse_offset_index_of_another_broker_is_rebuilt(tmp_path: Path) -> None:
    """Another broker may have had any index.interval.bytes, or one entry for each append of a follower."""
    filled(tmp_path)
    first_index(tmp_path).write_bytes(first_index(tmp_path).read_bytes()[:8])
    log = reopened(tmp_path)
    assert steps_until_ready(lambda: log.read(BATCHES - 1, 1)) == STEPS
    assert is_whole(log)


def test_a_sparse_offset_index_of_large_batches_is_kept(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    for _ in range(20):
        log.append(batch(b"v" * INDEX_INTERVAL_BYTES_MAX), leader_epoch=0)
    log.roll()
    log.close(clean=True)
    first_index(tmp_path).write_bytes(first_index(tmp_path).read_bytes()[:8])
    log = open_at(tmp_path, CONFIG, clean=True, recovery_point=20)
    for offset in (19, 3):
        assert headers(log.read(offset, 1))[0].base_offset == offset
    assert len(log.segments.first.offset_index) == 1


def test_a_log_that_turns_out_to_be_damaged_goes_offline(tmp_path: Path) -> None:
    log = filled(tmp_path)
    first_index(tmp_path).unlink()
    with Path(f"{log.segments.first.stem}.log").open("r+b") as file:
        file.seek(log.segments.first.size - 40)
        file.write(bytes(40))
        file.seek(log.segments.first.size // 2 // len(batch(b"v")) * len(batch(b"v")) + 16)
        file.write(b"\1")  # the magic byte
    log = reopened(tmp_path)
    with pytest.raises(CorruptLogError, match="no batch at position"):
        steps_until_ready(lambda: log.read(1, 1))
    assert isinstance(log.failure, CorruptLogError)


def _retain(log: PartitionLog, now_ms: int, high_watermark: int) -> None:
    while log.apply_retention(now_ms, high_watermark):
        pass


def test_timestamps_of_many_segments_are_read_in_steps(tmp_path: Path) -> None:
    config = replace(CONFIG, segment_bytes=200)
    log = open_at(tmp_path, config)
    count = 5 * SEGMENTS_AT_ONCE
    for number in range(2 * count):
        log.append(batch(b"v", timestamp=NOW_MS + number), leader_epoch=0)
    log.close(clean=True)
    assert len(log.segments) == count
    for kind in range(3):
        log = open_at(tmp_path, config, clean=True, recovery_point=2 * count)
        log.update_config(replace(config, retention_ms=NOW_MS * 2))
        asks: list[Callable[[], object]] = [
            log.max_timestamp,
            partial(log.batch_for_timestamp, NOW_MS * 2, 0),
            partial(_retain, log, NOW_MS * 4, 2 * count),
        ]
        waits = steps_until_ready(asks[kind])  # retention removes the segments that it has read before it reads more
        assert waits == (4, 4, 2)[kind]
        if kind < 2:
            assert max_timestamp_offset(log) == (2 * count - 1, NOW_MS + 2 * count - 1, 0)
    assert log.segments.first.base_offset == 2 * count


def test_a_scrub_waits_for_the_index_rebuild(tmp_path: Path) -> None:
    filled(tmp_path)
    first_index(tmp_path).unlink()
    log = reopened(tmp_path)
    sizes = list(one_pass([log], lambda _: True))
    assert sizes.count(0) == STEPS
    assert sum(sizes) == log.segments.first.size


@pytest.mark.parametrize("start", [0, BATCHES // 2])
def test_a_copy_to_a_future_log_waits_for_the_index_rebuild(tmp_path: Path, start: int) -> None:
    filled(tmp_path / "log")
    first_index(tmp_path / "log").unlink()
    log = reopened(tmp_path / "log")
    log.delete_records_before(start)
    future = open_at(tmp_path / "future", CONFIG)
    copying = Copying(log, future, is_start_known=False)
    steps = 0

    def copy() -> None:
        nonlocal steps
        while copying.step(65536):
            steps += 1

    assert steps_until_ready(copy) == STEPS
    assert steps > 1
    assert future.log_end_offset == log.log_end_offset
    assert future.segments.first.base_offset == start


def test_a_start_makes_the_active_segments_index_again_at_once(tmp_path: Path) -> None:
    filled(tmp_path, is_closed=False)
    first_index(tmp_path).unlink()
    log = reopened(tmp_path)
    assert is_whole(log)

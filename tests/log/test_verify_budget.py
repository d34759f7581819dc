"""Verification budget of reads: a read verifies stored batches up to its budget, and the next read continues."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.log.verify_budget import BATCH_COST, BUDGET_BYTES, VerifyBudget
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.log.support import batch, headers, open_at

SIZE = len(batch(b"%05d" % 0))
BATCHES_MAX = BUDGET_BYTES // (SIZE + BATCH_COST) + 1
"""Maximum number of small batches that one read verifies."""
EVERYTHING = 1 << 30


def budget_of(batches: int) -> VerifyBudget:
    return VerifyBudget(batches * (SIZE + BATCH_COST))


def restarted(directory: Path, count: int, config: LogConfig | None = None) -> PartitionLog:
    """Return a log of unverified batches with one record each."""
    log = open_at(directory, config)
    for number in range(count):
        log.append(batch(b"%05d" % number), leader_epoch=0)
    log.close(clean=True)
    return open_at(directory, config, clean=True, recovery_point=count)


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for header in headers(data)]


def reads(log: PartitionLog, budget_batches: int) -> Iterator[list[int]]:
    """Yield the offsets that each read returns, up to the log end."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = offsets(log.read(offset, EVERYTHING, budget=budget_of(budget_batches)))
        yield found
        offset = found[-1] + 1


def test_a_read_without_a_budget_of_its_own_has_one(tmp_path: Path) -> None:
    log = restarted(tmp_path, 2 * BATCHES_MAX + 1)
    first = offsets(log.read(0, EVERYTHING))
    assert len(first) == BATCHES_MAX
    assert first == list(range(len(first)))
    second = offsets(log.read(len(first), EVERYTHING))
    assert second == list(range(len(first), 2 * len(first)))


def test_consecutive_budgeted_reads_cross_segments(tmp_path: Path) -> None:
    log = restarted(tmp_path, 100, LogConfig(segment_bytes=30 * SIZE, index_interval_bytes=5 * SIZE))
    found = list(reads(log, 7))
    assert [offset for some in found for offset in some] == list(range(100))
    assert max(len(some) for some in found) == 7
    assert len(log.segments) == 4


def test_verified_batches_use_no_budget(tmp_path: Path) -> None:
    """A reader that starts again from the same offset therefore gets further each time."""
    log = restarted(tmp_path, 50)
    assert [len(offsets(log.read(0, EVERYTHING, budget=budget_of(20)))) for _ in range(3)] == [20, 40, 50]
    budget = budget_of(1)
    assert offsets(log.read(0, EVERYTHING, budget=budget)) == list(range(50))
    assert (budget.bytes_left, budget.is_short) == (budget_of(1).bytes_left, False)


def test_batches_appended_since_the_start_use_no_budget(tmp_path: Path) -> None:
    log = restarted(tmp_path, 10)
    for number in range(10):
        log.append(batch(b"%05d" % number), leader_epoch=0)
    budget = VerifyBudget(0)
    assert offsets(log.read(10, EVERYTHING, budget=budget)) == list(range(10, 20))
    assert not budget.is_short


def test_reads_share_a_budget(tmp_path: Path) -> None:
    logs = [restarted(tmp_path / str(number), 10) for number in range(4)]
    budget = budget_of(15)
    found = [len(offsets(log.read(0, EVERYTHING, min_one_batch=False, budget=budget))) for log in logs]
    assert (found, budget.is_short) == ([10, 5, 0, 0], True)


@pytest.mark.parametrize("left", [0, -1, 1, SIZE - 1])
def test_one_batch_is_read_if_one_is_wanted_however_little_is_left(tmp_path: Path, left: int) -> None:
    """Without this batch the read returns nothing, and must not skip to the next segment."""
    log = restarted(tmp_path, 10, LogConfig(segment_bytes=5 * SIZE))
    budget = VerifyBudget(left)
    assert log.read(3, EVERYTHING, min_one_batch=False, budget=budget) == b""
    assert (budget.bytes_left, budget.is_short) == (left, True)
    assert offsets(log.read(3, EVERYTHING, budget=VerifyBudget(left))) == [3]


def test_a_batch_that_is_larger_than_the_budget_is_read_whole(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for _ in range(3):
        log.append(batch(bytes(10_000)), leader_epoch=0)
    log.close(clean=True)
    log = open_at(tmp_path, clean=True, recovery_point=3)
    for offset in range(3):
        budget = VerifyBudget(5000)
        assert offsets(log.read(offset, EVERYTHING, budget=budget)) == [offset]
        assert budget.is_short == (offset < 2)


def test_a_read_of_exactly_the_budget_is_not_short(tmp_path: Path) -> None:
    log = restarted(tmp_path, 10)
    budget = budget_of(10)
    assert len(offsets(log.read(0, EVERYTHING, budget=budget))) == 10
    assert (budget.bytes_left <= 0, budget.is_short) == (True, False)


def test_limits_hold_within_the_budget(tmp_path: Path) -> None:
    log = restarted(tmp_path, 50)
    budget = budget_of(20)
    assert offsets(log.read(5, EVERYTHING, limit_offset=15, budget=budget)) == list(range(5, 15))
    assert offsets(log.read(15, 3 * SIZE + 1, budget=budget)) == [15, 16, 17]
    assert not budget.is_short
    assert offsets(log.read(15, EVERYTHING, limit_offset=40, budget=budget)) == list(range(15, 25))
    assert budget.is_short


def test_damage_fails_the_read_that_reaches_it(tmp_path: Path) -> None:
    log = restarted(tmp_path, 30)
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[14 * SIZE + 65] ^= 1
    path.write_bytes(data)
    assert offsets(log.read(0, EVERYTHING, budget=budget_of(10))) == list(range(10))
    with pytest.raises(CorruptLogError) as caught:
        log.read(0, EVERYTHING, budget=budget_of(10))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="offline"):
        log.read(0, EVERYTHING)


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_a_wrong_batch_length_on_disk_fails_the_read(tmp_path: Path, length: int) -> None:
    log = restarted(tmp_path, 30)
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[14 * SIZE + 8 : 14 * SIZE + 12] = length.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=f"no batch at position {14 * SIZE}"):
        log.read(0, EVERYTHING, budget=budget_of(20))


def test_reads_of_any_kind_return_what_is_stored(tmp_path: Path) -> None:
    """Random offsets, limits and budgets are compared with the list of batches."""
    generator = random.Random(7)
    for number in range(20):
        log = restarted(tmp_path / str(number), 60, LogConfig(segment_bytes=25 * SIZE, index_interval_bytes=200))
        for _ in range(40):
            offset, limit = sorted(generator.choices(range(61), k=2))
            min_one, left = generator.random() < 0.5, generator.randrange(-1, 20 * BATCH_COST)
            max_bytes, budget = generator.randrange(30 * SIZE), VerifyBudget(left)
            found = offsets(log.read(offset, max_bytes, limit_offset=limit, min_one_batch=min_one, budget=budget))
            assert found == list(range(offset, offset + len(found)))
            assert not found or found[-1] < limit
            assert len(found) * SIZE <= max_bytes or (min_one and len(found) == 1)
            assert found or not min_one or offset == limit
        log.close(clean=True)


def test_a_copy_of_a_restarted_log_reaches_the_log_end(tmp_path: Path) -> None:
    log, copy = restarted(tmp_path / "a", BATCHES_MAX + 10), open_at(tmp_path / "b")
    steps = 0
    while data := log.read(copy.log_end_offset, EVERYTHING):
        copy.append(data, leader_epoch=-1, origin=AppendOrigin.REPLICATION)
        steps += 1
    assert (copy.log_end_offset, steps == 2) == (BATCHES_MAX + 10, True)

"""Damage in a segment's files, case by case: rejected or rebuilt, and never wrong data in a response."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.log.scrubbing import one_pass
from kwire.log.segment import Segment
from tests.log.searching import offset_for_timestamp
from tests.log.support import NOW_MS, batch, headers, open_at, values

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=0)


def filled(directory: Path) -> PartitionLog:
    """Return a log with twenty batches of one record in several segments, closed by a clean stop."""
    log = open_at(directory, CONFIG)
    for index in range(20):
        log.append(batch(b"%02d" % index, timestamp=NOW_MS + index), leader_epoch=index // 4)
    log.close(clean=True)
    assert len(log.segments) > 2
    return log


def reopened(directory: Path) -> PartitionLog:
    return open_at(directory, CONFIG, clean=True, recovery_point=20)


def overwrite(path: str, position: int, layout: str, value: int) -> None:
    with Path(path).open("r+b") as file:
        file.seek(position)
        file.write(struct.pack(layout, value))


def path_of(log: PartitionLog, index: int, suffix: str = ".log") -> str:
    return f"{log.segments[index].stem}{suffix}"


def test_a_batch_that_lost_its_magic_is_not_served_with_those_around_it(tmp_path: Path) -> None:
    log = filled(tmp_path)
    overwrite(path_of(log, 0), log.segments[0].position_of(2) + 16, ">b", 1)
    again = reopened(tmp_path)
    with pytest.raises(CorruptLogError, match="no batch at position"):
        again.read(0, 10_000)
    assert isinstance(again.failure, CorruptLogError)


@pytest.mark.parametrize("number", [0, 1])
def test_a_leader_epoch_that_goes_back_is_damage(tmp_path: Path, number: int) -> None:
    """No CRC covers the epoch, and followers use it to find the offset where logs diverge."""
    log = filled(tmp_path)
    overwrite(path_of(log, 0), log.segments[0].position_of(number) + 12, ">i", 7)
    with pytest.raises(CorruptLogError, match="the leader epoch goes back"):
        reopened(tmp_path).read(0, 10_000)


def test_a_closed_segment_that_ends_inside_a_header_is_not_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = Path(path_of(log, 0))
    path.write_bytes(path.read_bytes()[: log.segments[0].position_of(3) + 40])
    again = reopened(tmp_path)
    with pytest.raises(CorruptLogError, match="ends inside a batch header"):
        again.read(0, 100)


def test_an_active_segment_that_ends_inside_a_header_keeps_the_log_closed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with Path(path_of(log, -1)).open("ab") as file:
        file.write(bytes(40))
    with pytest.raises(CorruptLogError):
        reopened(tmp_path)


def test_a_time_index_with_an_offset_that_does_not_exist_is_rebuilt(tmp_path: Path) -> None:
    log = filled(tmp_path)
    time_index = Path(path_of(log, 0, ".timeindex"))
    before = time_index.read_bytes()
    overwrite(str(time_index), len(before) - 4, ">i", 50)
    again = reopened(tmp_path)
    for index in range(20):
        found = offset_for_timestamp(again, NOW_MS + index)
        assert found is not None
        assert found.offset == index
    again.flush()
    again.close(clean=True)
    assert offset_for_timestamp(reopened(tmp_path), NOW_MS + 1) == (1, NOW_MS + 1, 0)


def test_a_damaged_segment_is_rejected_each_time_it_is_loaded(tmp_path: Path) -> None:
    log = filled(tmp_path)
    last = log.segments[0].offset_index.last_entry()[1]
    overwrite(path_of(log, 0), last + 16, ">b", 1)
    segment = Segment(RealDisk(), str(tmp_path), 0, create=False, created_ms=NOW_MS)
    for _ in range(2):
        with pytest.raises(CorruptLogError):
            segment.load()
    assert not segment.is_loaded
    segment.close()


def test_a_piece_that_ends_within_a_header_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path)
    data = Path(path_of(log, 0)).read_bytes()
    segment = Segment(RealDisk(), str(tmp_path), 0, create=False, created_ms=NOW_MS)
    first = struct.unpack_from(">i", data, 8)[0] + 12
    with pytest.raises(CorruptLogError, match=f"no batch at position {first}"):
        segment._verify(data[: first + 20], 0)
    segment.close()


def test_a_log_that_is_damaged_keeps_the_first_reason(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    troubles: list[str] = []
    log.health.on_trouble = lambda: troubles.append("trouble")
    errors = [CorruptLogError("first"), CorruptLogError("second")]
    assert [log.health.damaged(error) for error in errors] == errors
    assert (log.failure, troubles) == (errors[0], ["trouble"])
    assert log.apply_retention(NOW_MS, 0) == []


def test_a_scrub_leaves_a_log_that_went_offline_meanwhile(tmp_path: Path) -> None:
    log = filled(tmp_path / "a")
    log = open_at(tmp_path / "a", CONFIG, clean=True, recovery_point=20)
    other = filled(tmp_path / "b")
    steps = one_pass([log, other], lambda _: True)
    next(steps)
    log.health.damaged(CorruptLogError("by a reader"))
    assert sum(steps) == sum(segment.size for segment in list(other.segments)[:-1])
    assert values(other) == [b"%02d" % index for index in range(20)]


@pytest.mark.parametrize("entry", [1, -2, -1])
@pytest.mark.parametrize("is_active", [False, True])
def test_a_flipped_bit_in_an_index_does_not_take_the_log_offline(tmp_path: Path, entry: int, is_active: bool) -> None:
    """An index is derived data: if an entry points to no batch, the index is rebuilt from the batches."""
    config = LogConfig(segment_bytes=8_000, index_interval_bytes=100)
    log = open_at(tmp_path, config)
    for number in range(100):
        log.append(batch(b"v" * 20, timestamp=NOW_MS + number), leader_epoch=0)
    log.close(clean=True)
    paths = sorted(tmp_path.glob("*.index"))
    path = paths[-1 if is_active else 0]
    data = bytearray(path.read_bytes())
    data[8 * (entry % (len(data) // 8)) + 7] ^= 16  # the position field; entries stay in increasing order
    path.write_bytes(data)
    log = open_at(tmp_path, config, clean=True, recovery_point=100)
    for offset in range(100):
        found_at = [header.base_offset for header in headers(log.read(offset, 300))]
        assert found_at
        assert found_at == list(range(offset, offset + len(found_at)))
        found = offset_for_timestamp(log, NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
    for end in range(99, 0, -1):
        log.truncate_to(end)
        assert log.log_end_offset == end
    assert log.failure is None

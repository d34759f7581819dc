"""Index files: their bytes are Kafka's, and answers do not depend on their entries."""

from __future__ import annotations

import struct

import pytest

from kwire.log.disk import RealDisk
from kwire.log.errors import CorruptIndexError
from kwire.log.index import OffsetIndex, TimeIndex
from kwire.log.ranges import Ranges


def offset_index(tmp_path, *, load):
    return OffsetIndex(RealDisk(), str(tmp_path / "x"), 100, load=load)


def time_index(tmp_path, *, load):
    return TimeIndex(RealDisk(), str(tmp_path / "x"), 100, load=load)


def test_offset_index_bytes_and_lookups(tmp_path):
    index = offset_index(tmp_path, load=False)
    assert index.lookup(105) == 0
    assert index.last_entry() == (100, 0)
    for offset, position in ((110, 4200), (120, 9000), (2**31 + 99, 70000)):
        index.append(offset, position)
    index.append(115, 1)  # not larger than the last offset: skipped
    index.storage.write()
    assert (tmp_path / "x.index").read_bytes() == struct.pack(">6i", 10, 4200, 20, 9000, 2**31 - 1, 70000)
    again = offset_index(tmp_path, load=True)
    again.load()
    assert again.entries() == [(110, 4200), (120, 9000), (2**31 + 99, 70000)]
    assert [again.lookup(offset) for offset in (100, 109, 110, 119, 120, 2**40)] == [0, 0, 4200, 4200, 9000, 70000]
    assert [again.lookup_position(at) for at in (0, 4199, 4200, 8999, 10**9)] == [0, 0, 4200, 4200, 70000]


def test_time_index_bytes_and_lookups(tmp_path):
    index = time_index(tmp_path, load=False)
    assert (index.lookup(5), index.last_entry()) == (100, (-1, 100))
    for timestamp, offset in ((1000, 101), (900, 105), (1000, 106), (2**40, 110)):
        index.maybe_append(timestamp, offset)
    index.maybe_append(-1, 200)
    index.storage.write()
    assert (tmp_path / "x.timeindex").read_bytes() == struct.pack(">qiqi", 1000, 1, 2**40, 10)
    again = time_index(tmp_path, load=True)
    again.load()
    assert again.entries() == [(1000, 101), (2**40, 110)]
    assert [again.lookup(at) for at in (999, 1000, 1001, 2**40, 2**40 + 1)] == [100, 100, 101, 101, 110]


@pytest.mark.parametrize(
    "data", [b"\x00" * 7, struct.pack(">4i", 5, 10, 5, 20), struct.pack(">4i", 5, 10, 6, 10), struct.pack(">2i", -1, 0)]
)
def test_an_inconsistent_offset_index_is_rejected(tmp_path, data):
    (tmp_path / "x.index").write_bytes(data)
    with pytest.raises(CorruptIndexError):
        offset_index(tmp_path, load=True).load()


@pytest.mark.parametrize(
    "data", [b"\x00" * 11, struct.pack(">qiqi", 5, 1, 5, 2), struct.pack(">qiqi", 5, 2, 6, 2), b"\xff" * 12, bytes(24)]
)
def test_an_inconsistent_time_index_is_rejected(tmp_path, data):
    (tmp_path / "x.timeindex").write_bytes(data)
    with pytest.raises(CorruptIndexError):
        time_index(tmp_path, load=True).load()


@pytest.mark.parametrize("written", [0, 2, 4])
def test_cutting_an_index_cuts_what_is_written_and_what_is_not(tmp_path, written):
    index = offset_index(tmp_path, load=False)
    times = time_index(tmp_path, load=False)
    for step in range(1, 5):
        index.append(100 + step * 10, step * 1000)
        times.maybe_append(step * 7, 100 + step * 10)
        if step == written:
            index.storage.write()
            times.storage.write()
    index.truncate_to_position(3000)
    times.truncate_to_offset(130)
    index.storage.write()
    times.storage.write()
    assert (tmp_path / "x.index").read_bytes() == struct.pack(">4i", 10, 1000, 20, 2000)
    assert (tmp_path / "x.timeindex").read_bytes() == struct.pack(">qiqi", 7, 10, 14, 20)


def test_adjacent_ranges_are_merged():
    ranges = Ranges()
    assert not ranges.contain(0, 1)
    for start, end in ((10, 20), (30, 40), (20, 30), (50, 60), (0, 5)):
        ranges.add(start, end)
    assert ranges.contain(10, 40)
    assert not ranges.contain(4, 11)
    assert not ranges.contain(35, 51)
    ranges.cut(35)
    assert ranges.contain(10, 35)
    assert not ranges.contain(10, 36)
    assert not ranges.contain(50, 51)

"""Frame that arrives in several reads: it is complete, and uses at most twice the memory of its received bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.server.network.arriving_frame import ArrivingFrame
from tests.support.raw_client import sized


def length_in(data: bytes, position: int) -> int:
    length: int = struct.unpack_from(">i", data, position)[0]
    return length


@given(st.binary(max_size=300), st.binary(max_size=9), st.lists(st.integers(1, 70), min_size=1))
def test_a_frame_is_complete_however_its_bytes_arrive(content: bytes, behind: bytes, cuts: list[int]) -> None:
    stream = memoryview(sized(content) + behind)
    frame = ArrivingFrame()
    position, turn = 0, 0
    while not frame.is_whole:
        part = stream[position : position + cuts[turn % len(cuts)]]
        taken = frame.take(part, length_in)
        assert taken == min(len(part), 4 + len(content) - position)
        position += taken
        turn += 1
        assert frame.arrived_bytes == position
        assert frame._capacity_bytes <= 2 * position
    assert frame.size_in_bytes == position == 4 + len(content)
    assert frame.end() == content
    assert frame.arrived_bytes == 0
    assert frame.take(memoryview(sized(b"next")), length_in) == 8, "it takes the next one then"
    assert frame.end() == b"next"


def test_a_large_frame_length_allocates_little_memory() -> None:
    frame = ArrivingFrame()
    frame.take(memoryview(struct.pack(">i", 100_000_000) + bytes(1000)), length_in)
    assert frame._content is not None
    assert frame._content.getbuffer().nbytes == 2000


def test_an_invalid_frame_length_is_rejected_at_once() -> None:
    def reject(data: bytes, position: int) -> int:
        raise ValueError(data[position:])

    frame = ArrivingFrame()
    assert frame.take(memoryview(b"\xff\xff"), reject) == 2
    with pytest.raises(ValueError, match="xff"):
        frame.take(memoryview(b"\xff\xff\x00"), reject)

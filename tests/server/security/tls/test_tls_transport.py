"""Transport of a connection over TLS: output in pieces, what it reports as unsent, and how it closes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from kwire.server.network.tls_transport import ITERATION_BYTES, PIECE_BYTES, TlsTransport
from tests.virtual_loop import virtual_loop

HIGH = 100_000


class Lower:
    """TLS transport of an event loop that accepts `room` bytes, and then asks for a pause."""

    def __init__(self) -> None:
        self.upper: TlsTransport
        self.written = bytearray()
        self.largest = 0
        self.room = 1 << 60
        self.calls: list[str] = []

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += data
        self.largest = max(self.largest, len(data))
        self.room -= len(data)
        if self.room <= 0:
            self.upper.pause_writing()

    def accept(self, count: int) -> None:
        self.room = count
        self.upper.resume_writing()

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


class Upper:
    """Connection that records when it is paused."""

    def __init__(self) -> None:
        self.is_paused = False
        self.pauses = 0

    def pause_writing(self) -> None:
        assert not self.is_paused
        self.is_paused = True
        self.pauses += 1

    def resume_writing(self) -> None:
        assert self.is_paused
        self.is_paused = False


def make() -> tuple[TlsTransport, Lower, Upper]:
    lower, upper = Lower(), Upper()
    transport = TlsTransport(cast("asyncio.Transport", lower), upper)
    transport.set_write_buffer_limits(HIGH)
    lower.upper = transport
    return transport, lower, upper


def play(act: Any) -> None:
    with virtual_loop() as loop:
        loop.run_until_complete(act())


@given(
    sizes=st.lists(st.integers(1, 3 * PIECE_BYTES), max_size=12), rooms=st.lists(st.integers(1, 300_000), max_size=8)
)
def test_output_keeps_its_order_and_is_passed_on_in_pieces(sizes: list[int], rooms: list[int]) -> None:
    async def act() -> None:
        transport, lower, upper = make()
        lower.room = rooms[0] if rooms else 1 << 60
        expected = b""
        for number, size in enumerate(sizes):
            data = bytes([number]) * size
            expected += data
            if number % 2:
                transport.write(data)
            else:
                transport.writelines([data[: size // 2], memoryview(data)[size // 2 :]])
            assert transport.get_write_buffer_size() == len(expected) - len(lower.written)
        for room in rooms:
            await asyncio.sleep(0.01)
            if transport._is_blocked:
                lower.accept(room)
        while len(lower.written) < len(expected):
            await asyncio.sleep(0.01)
            if transport._is_blocked:
                lower.accept(1 << 60)
        assert bytes(lower.written) == expected
        assert lower.largest <= PIECE_BYTES
        assert (transport.get_write_buffer_size(), upper.is_paused) == (0, False)

    play(act)


def test_one_iteration_of_the_loop_encrypts_a_bounded_part_of_a_large_response() -> None:
    async def act() -> None:
        transport, lower, upper = make()
        transport.write(bytes(10 * ITERATION_BYTES))
        assert len(lower.written) == ITERATION_BYTES
        assert upper.pauses == 1
        transport.write(b"next")
        assert len(lower.written) == ITERATION_BYTES, "it waits behind the earlier output"
        await asyncio.sleep(0)
        assert len(lower.written) == 2 * ITERATION_BYTES
        while transport.get_write_buffer_size():
            await asyncio.sleep(0)
        assert (upper.pauses, upper.is_paused) == (1, False)
        assert lower.written.endswith(b"next")

    play(act)


def test_small_responses_are_passed_on_at_once() -> None:
    async def act() -> None:
        transport, lower, _ = make()
        transport.write(b"a")
        transport.writelines([b"b", b"c"])
        assert bytes(lower.written) == b"abc"

    play(act)


def test_a_close_waits_for_the_output_and_an_abort_does_not() -> None:
    async def act() -> None:
        closed, lower, _ = make()
        lower.room = 1
        closed.write(bytes(200_000))
        closed.close()
        assert "close" not in lower.calls
        lower.accept(1 << 60)
        assert lower.calls == ["close"]
        assert len(lower.written) == 200_000
        aborted, lower, _ = make()
        lower.room = 1
        aborted.write(bytes(200_000))
        aborted.abort()
        assert lower.calls == ["abort"]
        assert aborted.get_write_buffer_size() == 0
        empty, lower, _ = make()
        empty.close()
        assert lower.calls == ["close"]

    play(act)

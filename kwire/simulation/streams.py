"""TCP connections in memory: the two directions of a connection, and the transport for the protocol at each end.

Within a connection bytes are never lost, changed or reordered. They are delayed, and they wait while a link is blocked.
The window closes when the other side does not read. A connection breaks by a reset, because a host is off, or because
nothing was acknowledged for too long.
"""

from __future__ import annotations

import asyncio
import errno
import os
import zlib
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from kwire.simulation.links import Link

if TYPE_CHECKING:
    from kwire.simulation.hosts import HostLoop
    from kwire.simulation.network import Network

WINDOW_BYTES: Final = 256 * 1024
"""Bytes that may be sent and unread: the buffers of both sides in the kernel."""
HIGH_BYTES: Final = 64 * 1024
READ_BYTES: Final = 256 * 1024
FIN: Final = b""

Data = bytes | bytearray | memoryview


class Direction:
    """Direction of a connection: the bytes that one end sends to the other."""

    __slots__ = (
        "_acks_held",
        "_arrive_at",
        "_link",
        "_network",
        "_reverse",
        "_stuck",
        "_suspected",
        "excess",
        "excess_bytes",
        "fin_wanted",
        "in_flight",
        "receiver",
        "sender",
        "travelling",
    )  # fmt: skip

    def __init__(self, network: Network, link: Link, reverse: Link) -> None:
        self._network = network
        self._link = link
        self._reverse = reverse
        self.sender: StreamTransport
        self.receiver: StreamTransport
        self.excess: deque[bytes] = deque()
        self.excess_bytes = 0
        """Bytes that the window has no room for."""
        self.in_flight = 0
        """Bytes that were sent and not read yet."""
        self.travelling: deque[bytes | None] = deque()
        """Items in the order of their arrival: bytes, FIN, or None for a reset."""
        self.fin_wanted = False
        self._arrive_at = 0.0
        self._stuck = 0
        """Number of travelling items that are due and wait for the link."""
        self._acks_held = 0
        """Bytes that were read, while the acknowledgement is blocked."""
        self._suspected = False

    def send(self, data: bytes) -> None:
        self.excess.append(data)
        self.excess_bytes += len(data)
        self.pump()

    def pump(self) -> None:
        """Send as much as the window has room for, and FIN after the last byte."""
        while self.excess and self.in_flight < WINDOW_BYTES:
            data = self.excess.popleft()
            room = WINDOW_BYTES - self.in_flight
            if len(data) > room:
                self.excess.appendleft(data[room:])
                data = data[:room]
            self.excess_bytes -= len(data)
            self.in_flight += len(data)
            self.transmit(data)
        if self.fin_wanted and not self.excess:
            self.fin_wanted = False
            self.transmit(FIN)

    def transmit(self, item: bytes | None) -> None:
        """Send an item; it arrives after all earlier ones."""
        self.travelling.append(item)
        now = self._network.timeline.now
        self._arrive_at = max(self._arrive_at, now + self._link.seconds(len(item or b"")))
        self._network.at(self._arrive_at, self._arrive)

    def drop(self) -> None:
        """Drop unsent and lost bytes: the sender's host is off and sends nothing again."""
        self.excess.clear()
        self.excess_bytes = 0
        self.fin_wanted = False
        if self._stuck:
            for _ in range(self._stuck):
                self.travelling.popleft()
            self._stuck = 0

    def _arrive(self) -> None:
        if self._stuck or not self._link.is_open:
            if not self._stuck:
                self._link.when_open(self._find_out)
            self._stuck += 1
            self._suspect()
            return
        if self.travelling:
            self._deliver(self.travelling.popleft())

    def _find_out(self) -> None:
        self._network.later(self._link.retransmission_seconds(), self._go_on)

    def _go_on(self) -> None:
        """Deliver the items that wait for the link, if it is open again."""
        if not self._link.is_open:
            self._link.when_open(self._find_out)
            return
        stuck, self._stuck = self._stuck, 0
        self._suspected = self._acks_held > 0
        for _ in range(stuck):
            if self.travelling:
                self._deliver(self.travelling.popleft())

    def _deliver(self, item: bytes | None) -> None:
        self._network.note_delivery(self, item)
        self.receiver.arrived(item)

    def acknowledge(self, size: int) -> None:
        """Acknowledge bytes that the receiver has read, unless the reverse link is blocked."""
        if self._reverse.is_open and not self._acks_held:
            self.in_flight -= size
            if self.excess or self.fin_wanted:
                self.pump()
                self.sender.drained()
            return
        if not self._acks_held:
            self._reverse.when_open(self._acks_arrive)
        self._acks_held += size
        self._suspect()

    def _acks_arrive(self) -> None:
        if not self._reverse.is_open:
            self._reverse.when_open(self._acks_arrive)
            return
        size, self._acks_held = self._acks_held, 0
        self._suspected = self._stuck > 0
        self.acknowledge(size)

    def _suspect(self) -> None:
        """Start the timeout for a connection without acknowledgements."""
        if not self._suspected:
            self._suspected = True
            self._network.later(self._network.give_up_seconds, self._give_up)

    def _give_up(self) -> None:
        if self._suspected and (self._stuck or self._acks_held):
            self.sender.break_down(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))


class StreamTransport(asyncio.Transport):
    """End of a connection with its kernel state; it behaves like asyncio's own transport."""

    def __init__(self, loop: HostLoop, outgoing: Direction, *, sockname: Any, peername: Any) -> None:
        super().__init__({"sockname": sockname, "peername": peername, "socket": None})
        self.name = ""
        """Address as host:port, for the trace."""
        self.peer_host: str = peername[0]
        self._loop = loop
        self.outgoing = outgoing
        self.incoming: Direction
        self._protocol: asyncio.BaseProtocol
        self._received = bytearray()
        self._received_end = False
        self._error: OSError | None = None
        self._is_started = False
        self._is_paused = False
        self._will_read = False
        self._is_closing = False
        self._eof_written = False
        self._is_gone = False
        """True if the kernel has removed the connection."""
        self._is_ended = False
        """True if the process has closed its socket."""
        self._is_stopped = False
        """True if the protocol was asked to pause writing."""
        self._high, self._low = HIGH_BYTES, HIGH_BYTES // 4

    # --- the kernel's side

    def arrived(self, item: bytes | None) -> None:
        """Handle an item that arrived over the network."""
        if self._is_gone or self._is_ended:
            if item or (item is not None and self._is_gone):
                self.outgoing.transmit(None)
            return
        if item is None:
            self.break_down(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            return
        if item == FIN:
            self._received_end = True
        else:
            self._received += item
        self._read_soon()

    def break_down(self, error: OSError) -> None:
        """End the connection, in both directions."""
        if self._is_gone:
            return
        self._vanish()
        self._error = error
        if self._is_started and (self._is_closing or not self._is_paused):
            self._loop.call_soon(self._fail)

    def _vanish(self) -> None:
        """Remove the connection from the kernel."""
        self._is_gone = True
        self.outgoing.drop()

    def lose(self) -> None:
        """Close the connection as the kernel does after a kill of the process."""
        self._is_closing = True
        if not self._is_gone and not self._is_ended:
            self._close_socket()

    def _close_socket(self) -> None:
        """End the outgoing direction; with unread bytes, reset the connection, because no process will read them."""
        self._is_ended = True
        self.outgoing.excess.clear()
        self.outgoing.excess_bytes = 0
        if self._received:
            self._vanish()
            self.outgoing.transmit(None)
        elif not self._eof_written:
            self.outgoing.fin_wanted = True
            self.outgoing.pump()

    def power_off(self) -> None:
        """End the connection silently: the host has no power."""
        self._is_closing = True
        self._vanish()

    def drained(self) -> None:
        """Continue writing, after the network took some of the excess bytes."""
        self._loop.call_soon(self._write_ready)

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Start the protocol of the connection; called in the process."""
        self._protocol = protocol
        self._is_started = True
        protocol.connection_made(self)
        self._read_soon()

    # --- reading

    def _read_soon(self) -> None:
        if not self._will_read and not self._is_paused and self._is_started:
            self._will_read = True
            self._loop.call_soon(self._read_ready)

    def _read_ready(self) -> None:
        self._will_read = False
        if self._is_paused or self._is_closing:
            return
        if self._error is not None:
            self._fail()
        elif self._received:
            self._feed()
            if self._received or self._received_end or self._error is not None:
                self._read_soon()
        elif self._received_end:
            self._received_end = False
            if not self._protocol.eof_received():  # type: ignore[attr-defined] # a stream's protocol has it
                self.close()

    def _feed(self) -> None:
        """Pass received bytes to the protocol, as many as one read returns."""
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(cast("Any", protocol.get_buffer(-1)))
            count = min(len(buffer), len(self._received), READ_BYTES)
            buffer[:count] = self._received[:count]
            del self._received[:count]
            self.incoming.acknowledge(count)
            protocol.buffer_updated(count)
            return
        data = bytes(self._received[:READ_BYTES])
        del self._received[: len(data)]
        self.incoming.acknowledge(len(data))
        cast("asyncio.Protocol", protocol).data_received(data)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._received or self._received_end or self._error is not None:
            self._read_soon()

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    # --- writing

    def write(self, data: Data) -> None:
        if self._eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._is_closing:
            return
        if self._error is not None:
            self._loop.call_soon(self._fail)
            return
        if self._is_gone or self._is_ended:
            return
        self.outgoing.send(bytes(data))
        if self.outgoing.excess_bytes > self._high and not self._is_stopped:
            self._is_stopped = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        self.write(b"".join(list_of_data))

    def _write_ready(self) -> None:
        if self._is_stopped and self.outgoing.excess_bytes <= self._low:
            self._is_stopped = False
            self._protocol.resume_writing()
        if self._is_closing and not self.outgoing.excess_bytes:
            self._end(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self.outgoing.excess_bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._eof_written and not self._is_closing:
            self._eof_written = True
            if not self._is_gone:
                self.outgoing.fin_wanted = True
                self.outgoing.pump()

    # --- the end

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Send the written bytes, then end the connection."""
        if not self._is_closing:
            self._is_closing = True
            if not self.outgoing.excess_bytes:
                self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        """End the connection, without sending the rest."""
        if not self._is_ended:
            self._is_closing = True
            self.outgoing.excess.clear()
            self.outgoing.excess_bytes = 0
            self._loop.call_soon(self._end, None)

    def _fail(self) -> None:
        self._is_closing = True
        self._end(self._error)

    def _end(self, error: Exception | None) -> None:
        if self._is_ended:
            return
        if self._is_gone:
            self._is_ended = True
        else:
            self._close_socket()
        self._loop.transports.pop(self, None)
        self._protocol.connection_lost(error)


def fingerprint(item: bytes | None) -> str:
    """Return a short form of a packet for the trace."""
    if item is None:
        return "RST"
    return f"{len(item)} {zlib.crc32(item):08x}" if item else "FIN"

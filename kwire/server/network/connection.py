"""One client's connection: bytes in, frames, requests one after the other, answers out in order.

A request that is answered at once never leaves this call stack. One that has to wait holds back the requests behind
it, as Kafka mutes a channel, unless its API is pipelined (Produce): its ordered part, the append, is done by then and
only its answer waits. Reading stops while requests or answers pile up, so that a client's own socket pushes back on
it.

The receive buffer is shared by all connections of the loop: get_buffer, the read and buffer_updated follow one
another without anything between them. An idle connection therefore owns no buffer. A frame that arrives in pieces is
gathered in a bytearray that grows with what has arrived, not with what its length field claims.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from kwire.protocol.error_codes import ProtocolError
from kwire.server.network.outbox import Buffers

if TYPE_CHECKING:
    from kwire.server.network.listener import Listener

logger = logging.getLogger("kwire.server.network.connection")

_read_size = struct.Struct(">i").unpack_from
RECEIVE_BUFFER_BYTES = 256 * 1024
_TLS_HANDSHAKES = (0x160301, 0x160302, 0x160303)
"""First three bytes of a TLS connection: a handshake record of version 1.0 to 1.2, which TLS 1.3 claims to be, too."""
PIPELINE_DEPTH_MAX = 64
"""Answers that may wait in one connection; a client with more requests in flight waits for the first of them."""
QUEUED_FRAMES_MAX = 64
"""Whole frames that may wait in one connection before it stops reading."""


class CloseConnection(Exception):  # noqa: N818 an instruction, not an error
    """The request leaves nothing to answer: close the connection. The message says why, for one log line."""


class Answer:
    """A place in the line of answers: filled at once, or when its request is done."""

    __slots__ = ("buffers", "done", "frame_size", "holds_back", "only_waits", "throttle_ms", "waiting_for")

    def __init__(self, frame_size: int, *, holds_back: bool) -> None:
        self.buffers: Buffers | None = None
        self.done = False
        self.frame_size = frame_size
        self.holds_back = holds_back
        self.only_waits = False
        """Whether nothing is left to be done but to wait: nobody does when the client has gone."""
        self.throttle_ms = 0
        self.waiting_for: asyncio.Future[Any] | None = None
        """What is still under way of the request, whose frame counts as stored until then."""


class Pending:
    """A request that has to wait: what it waits for, and how its result becomes buffers and a throttle time."""

    __slots__ = ("awaitable", "encode", "pipelined")

    def __init__(
        self, awaitable: Awaitable[Any], encode: Callable[[Any], tuple[Buffers | None, int]], *, pipelined: bool
    ) -> None:
        self.awaitable = awaitable
        self.encode = encode
        self.pipelined = pipelined


class Connection:
    """See the module's text. State is changed on the event loop only."""

    __slots__ = (
        "_answers",
        "_closing",
        "_frame_bytes_max",
        "_frames",
        "_held_back",
        "_listener",
        "_mute_timer",
        "_muted_until",
        "_partial",
        "_partial_size",
        "_read_pauses",
        "_ready",
        "_stored_bytes",
        "_transport",
        "_writable",
        "client_software",
        "last_active",
        "peer_host",
        "peer_port",
        "principal",
        "write_blocked_since",
        "write_blocked_size",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._partial: bytearray | None = None
        self._partial_size = 0
        """Bytes of the frame that is arriving, its length field included; 0 while that is unknown."""
        self._frames: deque[bytes] = deque()
        self._answers: deque[Answer] = deque()
        self._held_back = False
        """Whether a request that is not pipelined is being served."""
        self._muted_until = 0.0
        self._mute_timer: asyncio.TimerHandle | None = None
        self._closing = False
        """Whether it was decided to close: nothing of what the client sent besides is served."""
        self._writable = True
        self._ready = True
        self._frame_bytes_max = listener.limits.request_bytes_max
        self._read_pauses: set[str] = set()
        self._stored_bytes = 0
        self.last_active = 0.0
        self.write_blocked_since: float | None = None
        """When the output buffer last became smaller; None while it is not full, unless the connection closes."""
        self.write_blocked_size = 0
        self.peer_host = ""
        self.peer_port = 0
        self.principal = "User:ANONYMOUS"
        self.client_software = ("unknown", "unknown")

    # --- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self.last_active = self._listener.now()
        transport.set_write_buffer_limits(high=self._listener.limits.output_buffer_bytes)
        self._listener.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._listener.receive_view

    def buffer_updated(self, count: int) -> None:
        if self._closing:
            return
        listener = self._listener
        self.last_active = listener.now()
        view = listener.receive_view
        try:
            if self._partial is None:
                self._cut(view, count)
            else:
                self._gather(view, count)
        except CloseConnection as reason:
            self.close(str(reason))
            return
        if self._frames:
            self._serve_queue()

    def eof_received(self) -> None:
        """The client sends no more, and the transport will close: what is answered by now still goes out."""
        self._listener.outbox.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._closing = True
        self._ready = False
        self._frames.clear()
        self._partial = None
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        being_served = [answer for answer in self._answers if answer.waiting_for is not None]
        self._answers.clear()
        still_stored = sum([answer.frame_size for answer in being_served])
        given_back, self._stored_bytes = self._stored_bytes - still_stored, still_stored
        self._listener.memory.give(self, given_back)
        self._listener.memory.forget(self)
        for answer in being_served:
            if answer.only_waits and answer.waiting_for is not None:
                answer.waiting_for.cancel()
        self._listener.output.release(self)
        self._listener.disconnected(self)

    def pause_writing(self) -> None:
        self._writable = self._ready = False
        self.write_blocked_since = self._listener.now()
        self.write_blocked_size = self.unsent_bytes
        self._pause_reading("output")
        self._listener.output.hold(self, self.write_blocked_size)

    def resume_writing(self) -> None:
        self._writable = True
        if not self._closing:
            self.write_blocked_since = None
        self._listener.output.release(self)
        self._resume_reading("output")
        self._serve_queue()

    # --- frames

    def _cut(self, view: memoryview, count: int) -> None:
        """Take whole frames out of the receive buffer; keep the rest for _gather."""
        position = 0
        while count - position >= 4:
            (size,) = _read_size(view, position)
            if not 0 <= size <= self._frame_bytes_max:
                raise self._bad_size(size)
            end = position + 4 + size
            if end > count:
                break
            frame = bytes(view[position + 4 : end])
            position = end
            if self._frames or not self._ready:
                self._queue(frame)
            else:
                self._serve(frame)
                if self._closing:
                    return
        if position < count:
            self._partial = bytearray(view[position:count])
            self._partial_size = 4 + self._frame_size(view, position) if count - position >= 4 else 0
            self._store(count - position)

    def _gather(self, view: memoryview, count: int) -> None:
        """Add to the frame that is arriving; queue it when it is whole and go on with what follows it."""
        partial = self._partial
        assert partial is not None
        position = 0
        if self._partial_size == 0:
            position = min(4 - len(partial), count)
            partial += view[:position]
            self._store(position)
            if len(partial) < 4:
                return
            self._partial_size = 4 + self._frame_size(partial, 0)
        part = min(self._partial_size - len(partial), count - position)
        partial += view[position : position + part]
        self._store(part)
        position += part
        if len(partial) < self._partial_size:
            return
        self._partial = None
        frame = bytes(memoryview(partial)[4:])
        del partial  # it may be large, and so may what the frame becomes
        if self._frames or not self._ready:
            self._queue(frame)
        else:
            self._serve(frame)
        self._unstore(self._partial_size)  # only now: a bearer that held nothing in between would bear no longer
        if position < count and not self._closing:
            self._cut(view[position:count], count - position)

    def _frame_size(self, buffer: memoryview | bytearray, position: int) -> int:
        size: int = _read_size(buffer, position)[0]
        if not 0 <= size <= self._frame_bytes_max:
            raise self._bad_size(size)
        return size

    def _bad_size(self, size: int) -> CloseConnection:
        if size >> 8 in _TLS_HANDSHAKES:
            self._listener.messages.log(
                logging.WARNING,
                ("TLS", self.peer_host),
                "a client at %s speaks TLS, but listener %s is plaintext: set its security.protocol=PLAINTEXT",
                self.peer_host,
                self._listener.name,
            )
            return CloseConnection("speaks TLS to a plaintext listener")
        return CloseConnection(f"announced a request of {size} bytes, outside 0 to socket.request.max.bytes")

    def _queue(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._store(len(frame), is_whole=True)
        if len(self._frames) >= QUEUED_FRAMES_MAX:
            self._pause_reading("queue")

    # --- requests

    def _look_ready(self) -> None:
        """To be called whenever one of these changes: whether the next request may be served."""
        self._ready = (
            not self._held_back
            and self._writable
            and self._muted_until == 0.0
            and not self._closing
            and len(self._answers) < PIPELINE_DEPTH_MAX
        )

    def _serve_queue(self) -> None:
        self._look_ready()
        while self._frames and self._ready:
            frame = self._frames.popleft()
            self._serve(frame)
            self._unstore(len(frame))  # see _gather
        if not self._frames:
            self._resume_reading("queue")

    def _serve(self, frame: bytes) -> None:
        try:
            outcome = self._listener.handle(self, frame)
        except CloseConnection as reason:
            self.close(str(reason))
            return
        except ProtocolError as error:
            self.close(f"sent a request that cannot be read: {error}")
            return
        except Exception as error:  # noqa: BLE001 whatever it is, the others are served
            self._failed(error)
            return
        if isinstance(outcome, Pending):
            self._wait(outcome, len(frame))
            return
        buffers, throttle_ms = outcome
        if buffers is not None:
            if self._answers:
                answer = Answer(0, holds_back=False)
                answer.buffers, answer.done = buffers, True
                self._answers.append(answer)
                self._look_ready()
            else:
                self._listener.outbox.put(self, buffers)
        if throttle_ms:
            self._mute(throttle_ms)

    def _wait(self, pending: Pending, frame_size: int) -> None:
        answer = Answer(frame_size, holds_back=not pending.pipelined)
        self._answers.append(answer)
        self._store(frame_size, is_whole=True)
        self._held_back = self._held_back or answer.holds_back
        self._look_ready()
        future: asyncio.Future[Any] = asyncio.ensure_future(pending.awaitable)
        answer.waiting_for = future
        answer.only_waits = future is pending.awaitable
        future.add_done_callback(lambda done: self._finished(answer, pending, done))

    def _finished(self, answer: Answer, pending: Pending, future: asyncio.Future[Any]) -> None:
        answer.waiting_for = None
        self._unstore(answer.frame_size)
        if self._transport is None:
            error = None if future.cancelled() else future.exception()
            if error is not None and not isinstance(error, CloseConnection):
                self._failed(error)
            return
        try:
            answer.buffers, answer.throttle_ms = pending.encode(future.result())
        except CloseConnection as reason:
            self.close(str(reason))
            return
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 whatever it is, the others are served
            self._failed(error)
            return
        answer.done = True
        self.last_active = self._listener.now()
        if answer.holds_back:
            self._held_back = False
        while self._answers and self._answers[0].done:
            ready = self._answers.popleft()
            if ready.buffers is not None:
                self._listener.outbox.put(self, ready.buffers)
        if answer.throttle_ms:
            self._mute(answer.throttle_ms)
        self._serve_queue()

    def _failed(self, error: BaseException) -> None:
        """A request did not get the answer that it must have."""
        logger.error("a request from %s failed; closing the connection", self.peer_name, exc_info=error)
        self._listener.judge(error)
        self.close("its request failed")

    def write_out(self, buffers: Buffers) -> None:
        """Give an answer to the transport; for the outbox."""
        transport = self._transport
        if transport is None:
            return
        if len(buffers) == 1:
            transport.write(buffers[0])
        else:
            transport.writelines(buffers)

    # --- holding back

    def hold(self, milliseconds: int) -> None:
        """Serve nothing for so long: a new connection over max.connection.creation.rate."""
        self._mute(milliseconds)

    def _mute(self, throttle_ms: int) -> None:
        """Serve nothing for a while: the broker's half of a quota (KIP-219). The longest of several counts."""
        until = self._listener.now() + throttle_ms / 1000.0
        if until <= self._muted_until:
            return
        self._muted_until = until
        self._ready = False
        self._pause_reading("quota")
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        self._mute_timer = asyncio.get_running_loop().call_later(throttle_ms / 1000.0, self._unmute)

    def _unmute(self) -> None:
        self._muted_until = 0.0
        self._mute_timer = None
        self.last_active = self._listener.now()
        self._resume_reading("quota")
        self._serve_queue()

    def pause_for_memory(self) -> None:
        self._pause_reading("memory")

    def resume_for_memory(self) -> None:
        self._resume_reading("memory")

    def _pause_reading(self, reason: str) -> None:
        if not self._read_pauses and self._transport is not None:
            self._transport.pause_reading()
        self._read_pauses.add(reason)

    def _resume_reading(self, reason: str) -> None:
        if reason not in self._read_pauses:
            return
        self._read_pauses.discard(reason)
        if not self._read_pauses and self._transport is not None:
            self._transport.resume_reading()

    def holds_requests(self) -> bool:
        """Whether whole requests wait or are being served; see RequestMemory."""
        return self._stored_bytes > (0 if self._partial is None else len(self._partial))

    def _store(self, size: int, *, is_whole: bool = False) -> None:
        self._stored_bytes += size
        self._listener.memory.take(self, size, is_whole=is_whole)

    def _unstore(self, size: int) -> None:
        self._stored_bytes -= size
        self._listener.memory.give(self, size)
        if self._stored_bytes == 0:
            self._listener.memory.holds_nothing(self)

    # --- the end

    @property
    def peer_name(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def unsent_bytes(self) -> int:
        """What the client has not taken yet of its answers."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def busy(self) -> bool:
        """Whether the broker owes this client an answer: not idle, however long it takes.

        Who is muted owes patience instead. It may have left meanwhile, which nobody sees while nothing is read.
        """
        return bool(self._answers)

    def is_stalled(self, now: float, seconds: float) -> bool:
        """Whether the client has taken nothing for so long of a full output buffer, or of what is left at the close."""
        if self.write_blocked_since is None or self._transport is None:
            return False
        size = self._transport.get_write_buffer_size()
        if size < self.write_blocked_size:
            self.write_blocked_since = now
        self.write_blocked_size = size
        return now - self.write_blocked_since > seconds

    def close(self, why: str) -> None:
        """Close, answers that are ready first; one log line says why."""
        self._frames.clear()
        self._partial = None
        self._ready = False
        if self._transport is not None and not self._closing:
            self._closing = True
            self._listener.outbox.flush()
            if self.write_blocked_since is None:
                self.write_blocked_since = self._listener.now()
                self.write_blocked_size = self.unsent_bytes
            logger.info("closing connection from %s: %s", self.peer_name, why)
            self._transport.close()

    def abort(self, why: str) -> None:
        """Close at once, whatever is unsent."""
        self._closing = True
        self._ready = False
        if self._transport is not None:
            logger.info("dropping connection from %s: %s", self.peer_name, why)
            self._transport.abort()

"""Connection of one client: received bytes, frames, requests served one after the other, responses sent in order.

A request that is answered at once never leaves this call stack, unless other connections are served first (turns.py). A
request that waits, or whose response is made in pieces, holds back later requests, as Kafka mutes a channel. Produce is
the exception, a pipelined API: unless it is appended in steps, its batches are appended (or queued for verification) at
once, and only its response waits. Reading stops while requests or responses accumulate: TCP slows the client down.

The receive buffer is shared by all connections (receive_buffer.py): get_buffer, the read and buffer_updated follow each
other with no other callback in between. A partly received frame is in arriving_frame.py.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from kwire.server.network import connection_limits as limits
from kwire.server.network.arriving_frame import ArrivingFrame
from kwire.server.network.close_reasons import close_reason, invalid_size, log_closing
from kwire.server.network.flow.blocked_output import BlockedOutput
from kwire.server.network.flow.mute import Mute
from kwire.server.network.flow.read_pauses import ReadPauses
from kwire.server.network.flow.turns import Share
from kwire.server.network.memory.leftovers import free
from kwire.server.network.memory.receive_buffer import LONG_READ_BYTES
from kwire.server.network.outbox import Buffers
from kwire.server.network.pending import CloseConnection, Pending, Work
from kwire.server.network.response_queue import QueuedResponse, Response, ResponseQueue

if TYPE_CHECKING:
    from kwire.server.network.listener import Listener
    from kwire.server.security.sasl.authenticator import Authenticator

_read_size = struct.Struct(">i").unpack_from
PRODUCE: Final = bytes(2)
"""First bytes of a Produce request: its API key."""


class Connection:
    """Connection of one client, see the module. Its state changes only on the event loop."""

    __slots__ = (
        "_arriving",
        "_can_serve",
        "_closing",
        "_end_reason",
        "_frames",
        "_listener",
        "_mute",
        "_read_pauses",
        "_reads_long",
        "_ready",
        "_responses",
        "_stored_bytes",
        "_transport",
        "_turns",
        "_writable",
        "authentication",
        "blocked_output",
        "client_software",
        "frame_bytes_max",
        "last_active",
        "peer_host",
        "peer_port",
        "principal",
        "share",
        "token_authenticated",
        "when_lost",
        "work",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._turns = listener.turns
        self.share = Share(is_node=listener.excludes_clients)
        self._transport: asyncio.Transport | None = None
        self._arriving = ArrivingFrame()
        self._frames: deque[bytes] = deque()
        self._responses = ResponseQueue()
        self.work: Work | None = None
        """Request that is served in pieces; it holds back those behind it."""
        self._can_serve = False
        """True if the next request may be served in the current share."""
        self._mute = Mute(self._unmuted)
        self._closing = False
        """True if the connection is closing: no further request of the client is served."""
        self._end_reason = ""
        """Reason why reading has ended; only queued requests are still served. Empty while the connection is read."""
        self._writable = self._ready = True
        self.frame_bytes_max = listener.first_frame_bytes_max
        self._read_pauses: ReadPauses
        self._reads_long = False
        self._stored_bytes, self.last_active = 0, 0.0
        self.blocked_output = BlockedOutput()
        self.peer_host, self.peer_port = "", 0
        self.principal, self.token_authenticated = "User:ANONYMOUS", False
        self.authentication: Authenticator | None = None
        self.client_software = ("unknown", "unknown")
        self.when_lost: list[Callable[[], None]] | None = []

    # --- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's transport has the same methods
        self._transport = transport
        self._read_pauses = ReadPauses(transport)
        if peer := transport.get_extra_info("peername"):
            self.peer_host, self.peer_port = peer[0], peer[1]
        self.last_active = self._listener.now()
        transport.set_write_buffer_limits(high=self._listener.limits.output_buffer_bytes)
        self._listener.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._listener.receive_buffer
        return buffer.view if self._reads_long else buffer.short_view

    def buffer_updated(self, count: int) -> None:
        if self._closing or self._end_reason:
            return
        self.last_active = self._listener.now()
        view = self._listener.receive_buffer.received
        has_share = self._can_serve = self._ready and not self._frames and self._turns.begin(self.share)
        try:
            if self._arriving.arrived_bytes == 0:
                self._cut(view, count)
            else:
                self._gather(view, count)
        except CloseConnection as reason:
            self.end(str(reason))  # earlier requests are served, as in Apache Kafka
        if self._responses.is_blocked and self._stored_bytes - self._responses.frame_bytes > limits.BLOCKED_BYTES_MAX:
            self._read_pauses.add("blocked")
        if has_share:
            self._turns.end(self.share, has_more=self._has_more)
        self._reads_long = count >= LONG_READ_BYTES and len(self._frames) < limits.QUEUED_FRAMES_MAX
        if count >= LONG_READ_BYTES:
            self._listener.receive_buffer.count(count, self._read_pauses)
        self._wait_for_share()

    def eof_received(self) -> bool:
        """Return True, which keeps the transport open, if requests are left. Else, delayed responses are dropped."""
        self._listener.outbox.flush()
        if self._frames or self.work or (self._end_reason and self._responses):
            self._end_reason = self._end_reason or "the client closed its side"
            return True
        self.blocked_output.begin(self._listener.now(), self.unsent_bytes)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._read_pauses.end()
        self._closing = True
        self._ready = False
        self._mute.end()
        self._free_objects(being_served := self._responses.clear())
        still_stored = sum([answer.frame_size for answer in being_served])
        released, self._stored_bytes = self._stored_bytes - still_stored, still_stored
        self._listener.memory.release(self, released)
        self._listener.memory.remove(self)
        self._listener.output.release(self)
        self._listener.disconnected(self)
        calls, self.when_lost = self.when_lost, None  # the callbacks refer to this connection
        for call in calls or ():
            call()

    def _free_objects(self, being_served: list[QueuedResponse]) -> None:
        """Free the objects of a disconnected client in steps: there may be millions of them."""
        steps = [self._frames.clear, self._arriving.end, *self._ended_work()]
        steps += [each.waiting_for.cancel for each in being_served if each.only_waits and each.waiting_for is not None]
        self._frames, self._arriving = deque(), ArrivingFrame()
        free(steps, self._stored_bytes)

    def pause_writing(self) -> None:
        self._writable = self._ready = False
        size = self.unsent_bytes
        self.blocked_output.begin(self._listener.now(), size)
        self._read_pauses.add("output")
        self._listener.output.set_unsent(self, size)

    def resume_writing(self) -> None:
        self._writable = True
        if not self._closing:
            self.blocked_output.end(self._listener.now())
        self._listener.output.release(self)
        self._read_pauses.discard("output")
        self._serve_queue()

    # --- frames

    def _cut(self, view: memoryview, count: int) -> None:
        """Take whole frames out of the receive buffer. Bytes of an incomplete frame go to the arriving frame."""
        position = 0
        while count - position >= 4:
            end = position + 4 + self._frame_size(view, position)
            if end > count:
                break
            frame = bytes(view[position + 4 : end])
            position = end
            if not self._can_serve:
                self._queue(frame)
            else:
                self._serve(frame)
                if self._closing or self._end_reason:
                    return
        if position < count:
            self._gather(view[position:count], count - position)

    def _gather(self, view: memoryview, count: int) -> None:
        """Add bytes to the arriving frame; when it is whole, queue it and go on with the bytes after it."""
        arriving = self._arriving
        position = arriving.take(view[:count], self._frame_size)
        self._store(position)
        if not arriving.is_whole:
            return
        size = arriving.size_in_bytes
        frame = arriving.end()
        if not self._can_serve:
            self._queue(frame)
        else:
            self._serve(frame)
        self._unstore(size)  # only now: with 0 stored bytes this connection loses its exemption (RequestMemory)
        if position < count and not (self._closing or self._end_reason):
            self._cut(view[position:count], count - position)

    def _frame_size(self, buffer: memoryview | bytes, position: int) -> int:
        size: int = _read_size(buffer, position)[0]
        if not 0 <= size <= self.frame_bytes_max:
            raise invalid_size(size, self, self._listener)
        return size

    def _queue(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._store(len(frame), is_whole=True)
        self._turns.expect(self.share, len(frame), has_records=frame.startswith(PRODUCE))
        if len(self._frames) >= limits.QUEUED_FRAMES_MAX:
            self._read_pauses.add("queue")

    # --- requests

    def _update_ready(self) -> None:
        """Update whether the next request may be served; to be called when any of these conditions changes."""
        self._ready = (
            not self._responses.is_blocked
            and self._writable
            and not self._mute
            and not self._closing
            and len(self._responses) < limits.PIPELINE_DEPTH_MAX
        )
        if not self._responses.is_blocked:
            self._read_pauses.discard("blocked")

    def _serve_queue(self) -> None:
        """Serve waiting requests now or in this connection's turn; to be called when they may continue."""
        self._update_ready()
        if (self.work or (self._frames and self._ready)) and not self.share.is_queued:
            if self._turns.begin(self.share):
                self._serve_waiting()
                self._turns.end(self.share, has_more=self._has_more)
            self._wait_for_share()
        self._close_if_done()

    def _wait_for_share(self) -> None:
        if self.work is not None:
            if not self._turns.acquire_slot(self):
                return
        elif not (self._frames and self._ready):
            return
        self._turns.enqueue(self)

    def serve_share(self) -> None:
        """Serve one share of time, see turns.Client."""
        self._serve_waiting()
        self._turns.end(self.share, has_more=self._has_more)
        self._wait_for_share()
        self._close_if_done()

    @property
    def _has_more(self) -> bool:
        return bool(self._frames) or self.work is not None

    def _close_if_done(self) -> None:
        if self._end_reason and not (self._frames or self.work or self._responses):
            self.close(self._end_reason)

    def _serve_waiting(self) -> None:
        """Serve waiting requests until the share is over."""
        self._can_serve = True
        if self.work is not None and self._turns.acquire_slot(self):
            self._continue_pieces(self.work)
        while self._frames and self._ready and self._can_serve:
            frame = self._frames.popleft()
            self._serve(frame)
            self._unstore(len(frame))  # see _gather
        if not self._frames:
            self._read_pauses.discard("queue")

    def _serve(self, frame: bytes) -> None:
        try:
            outcome = self._listener.handle(self, frame)
        except Exception as error:  # noqa: BLE001 any error ends only this connection
            self._reject(error)
            return
        if isinstance(outcome, tuple):
            buffers, throttle_ms = outcome
            if buffers is not None:
                if self._responses:
                    self._responses.add_filled(buffers)
                    self._update_ready()
                else:
                    self._listener.outbox.put(self, buffers)
            if throttle_ms:
                self.mute(throttle_ms)
        elif isinstance(outcome, Pending):
            self._wait(outcome, self._add_place(len(frame), blocks_later=not outcome.pipelined))
        else:
            self.work = Work(outcome, self._add_place(len(frame), blocks_later=True), self.share)
            self._continue_pieces(self.work)
            return
        self._can_serve = not self._turns.request_ends_share() and self._ready

    def _add_place(self, frame_size: int, *, blocks_later: bool) -> QueuedResponse:
        """Add a place for a later response; with `blocks_later`, later requests wait for it."""
        answer = self._responses.add(frame_size, blocks_later=blocks_later)
        self._store(frame_size, is_whole=True)
        self._update_ready()
        return answer

    def _continue_pieces(self, work: Work) -> None:
        """Serve the request in pieces until it is done or the share is over."""
        try:
            while True:
                next(work.pieces)
                if self._turns.request_ends_share():
                    self._can_serve = False
                    return
        except StopIteration as end:
            outcome = end.value
        except Exception as error:  # noqa: BLE001 any error ends only this connection
            free(self._ended_work(), 0)
            self._reject(error, work.answer)
            return
        free(self._ended_work(), 0)
        if isinstance(outcome, Pending):
            self._wait(outcome, work.answer)
        else:
            self._unstore(work.answer.frame_size)
            self._fill(work.answer, outcome)
            self._update_ready()
        self._can_serve = not self._turns.request_ends_share() and self._ready

    def _ended_work(self) -> list[Callable[[], object]]:
        """Drop the request in pieces; return the calls that free its objects."""
        work, self.work = self.work, None
        if work is None:
            return []
        self._turns.release_slot(self.share)
        return [work.end]

    def _wait(self, pending: Pending, answer: QueuedResponse) -> None:
        future: asyncio.Future[Any] = asyncio.ensure_future(pending.awaitable)
        answer.waiting_for = future
        answer.only_waits = future is pending.awaitable
        future.add_done_callback(partial(self._finished, answer, pending))

    def _finished(self, answer: QueuedResponse, pending: Pending, future: asyncio.Future[Any]) -> None:
        answer.waiting_for = None
        if self._transport is None:
            self._unstore(answer.frame_size)
            if not future.cancelled() and (error := future.exception()) is not None:
                self._reject(error)
            return
        try:
            outcome = pending.encode(future.result())
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 any error ends only this connection
            del future  # it references the error, whose traceback references this frame
            self._unstore(answer.frame_size)
            self._reject(error, answer)
            return
        if isinstance(outcome, tuple):
            self._unstore(answer.frame_size)
            self._fill(answer, outcome)
        else:
            assert answer.blocks_later, "an answer in pieces holds back those behind it"
            self.work = Work(outcome, answer, self.share)
        self._serve_queue()

    def _fill(self, answer: QueuedResponse, answered: Response) -> None:
        """Fill the place of a response, and send the responses that have no unfilled place before them."""
        self.last_active = self._listener.now()
        for buffers in self._responses.fill(answer, answered):
            self._listener.outbox.put(self, buffers)
        if answer.throttle_ms:
            self.mute(answer.throttle_ms)

    def _reject(self, error: BaseException, answer: QueuedResponse | None = None) -> None:
        """Close the connection after a request that gets no response. Earlier requests are answered first."""
        reason = close_reason(error, self, self._listener)
        self._responses.drop_from(answer)
        if self._transport is None or not self._responses:
            self.close(reason)
            return
        while self._frames:
            self._unstore(len(self._frames.popleft()))
        self.end(reason)

    def end(self, reason: str) -> None:
        """Read nothing more, and close when all queued requests are answered."""
        self._end_reason = self._end_reason or reason
        self._read_pauses.add("end")
        self._close_if_done()

    def write_out(self, buffers: Buffers) -> None:
        """Pass a response to the transport; called by the outbox."""
        transport = self._transport
        if transport is not None and len(buffers) == 1:
            transport.write(buffers[0])
        elif transport is not None:
            transport.writelines(buffers)

    # --- holding back

    def mute(self, milliseconds: int) -> None:
        """Serve nothing for this time: the client exceeds a quota, or max.connection.creation.rate."""
        self._mute.begin(milliseconds)
        self._ready = False
        self._read_pauses.add("quota")

    def _unmuted(self) -> None:
        self.last_active = self._listener.now()
        self._read_pauses.discard("quota")
        self._serve_queue()

    def pause_for_memory(self) -> None:
        self._read_pauses.add("memory")

    def resume_for_memory(self) -> None:
        self._read_pauses.discard("memory")

    def has_whole_requests(self) -> bool:
        """Return True if whole requests wait or are being served; see RequestMemory."""
        return self._stored_bytes > self._arriving.arrived_bytes

    def _store(self, size: int, *, is_whole: bool = False) -> None:
        self._stored_bytes += size
        self._listener.memory.acquire(self, size, is_whole=is_whole)

    def _unstore(self, size: int) -> None:
        self._stored_bytes -= size
        self._listener.memory.release(self, size)
        if self._stored_bytes == 0:
            self._listener.memory.resume_empty(self)

    # --- the end

    @property
    def peer_name(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the client has not read yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def long_request_bytes(self) -> int:
        """Bytes of requests that are being served and may have many elements."""
        return self._responses.long_frame_bytes

    @property
    def is_busy(self) -> bool:
        """True if the client waits for a response: max.connections then closes another connection."""
        return len(self._responses) > 0

    def is_stalled(self, now: float, seconds: float) -> bool:
        """Return True if the client has read nothing for `seconds`, while the output buffer is full or closing."""
        return self._transport is not None and self.blocked_output.is_stalled(now, self.unsent_bytes, seconds)

    def close(self, reason: str) -> None:
        """Close after sending the finished responses. Logs the reason."""
        free(self._ended_work(), 0)
        self._frames.clear()
        self._arriving.end()
        self._ready = False
        if self._transport is not None and not self._closing:
            self._closing = True
            self._listener.outbox.flush()
            self.blocked_output.begin(self._listener.now(), self.unsent_bytes)
            log_closing(self, self._listener, reason)
            self._transport.close()

    def close_now(self, reason: str) -> None:
        """Close at once, without sending the remaining responses. Logs the reason."""
        self._closing = True
        self._ready = False
        if self._transport is not None:
            log_closing(self, self._listener, reason, how=" at once")
            self._transport.abort()

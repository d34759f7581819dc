"""Queue of the responses that one client waits for, in the order of its requests."""

from __future__ import annotations

import asyncio
from collections import deque

from kwire.server.network import connection_limits as limits
from kwire.server.network.outbox import Buffers

Response = tuple[Buffers | None, int]
"""Buffers of a response, None for no response; and the milliseconds for which the client is muted afterwards."""


class QueuedResponse:
    """Place of one response in the queue: filled at once, or when its request is done."""

    __slots__ = ("blocks_later", "buffers", "done", "frame_size", "only_waits", "throttle_ms", "waiting_for")

    def __init__(self, frame_size: int, *, blocks_later: bool) -> None:
        """`blocks_later` is True if no later request of the connection is served before this place is filled."""
        self.buffers: Buffers | None = None
        self.done = False
        self.frame_size = frame_size
        self.blocks_later = blocks_later
        self.only_waits = False
        """True if the request only waits: nothing needs to be completed if the client disconnects."""
        self.throttle_ms = 0
        self.waiting_for: asyncio.Future[object] | None = None
        """Running part of the request; until it ends, the request's frame counts as stored."""


class ResponseQueue:
    """Queue of places for responses."""

    __slots__ = ("_responses", "is_blocked")

    def __init__(self) -> None:
        self._responses: deque[QueuedResponse] = deque()
        self.is_blocked = False
        """True if a request that is not pipelined is being served."""

    def __len__(self) -> int:
        return len(self._responses)

    def add(self, frame_size: int, *, blocks_later: bool) -> QueuedResponse:
        """Add a place behind all others and return it."""
        answer = QueuedResponse(frame_size, blocks_later=blocks_later)
        self._responses.append(answer)
        self.is_blocked = self.is_blocked or blocks_later
        return answer

    def add_filled(self, buffers: Buffers) -> None:
        """Add a finished response, which waits for those before it."""
        answer = self.add(0, blocks_later=False)
        answer.buffers, answer.done = buffers, True

    def fill(self, answer: QueuedResponse, answered: Response) -> list[Buffers]:
        """Fill a place; return the responses that can be sent now, in order."""
        answer.buffers, answer.throttle_ms = answered
        answer.done = True
        if answer.blocks_later:
            self.is_blocked = False
        ready: list[Buffers] = []
        while self._responses and self._responses[0].done:
            buffers = self._responses.popleft().buffers
            if buffers is not None:
                ready.append(buffers)
        return ready

    def drop_from(self, answer: QueuedResponse | None) -> None:
        """Remove a response that will not come, and later ones, which the client would assign to the wrong request."""
        while answer in self._responses:
            self._responses.pop()

    def clear(self) -> list[QueuedResponse]:
        """Empty the queue; return the places whose requests are still running."""
        running = [answer for answer in self._responses if answer.waiting_for is not None]
        self._responses.clear()
        return running

    @property
    def frame_bytes(self) -> int:
        """Bytes of the requests of all places."""
        return sum([answer.frame_size for answer in self._responses])

    @property
    def long_frame_bytes(self) -> int:
        """Bytes of those requests that may have many elements."""
        sizes = [answer.frame_size for answer in self._responses]
        return sum([size for size in sizes if size > limits.LONG_REQUEST_BYTES])

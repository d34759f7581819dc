"""Queue of the responses that one client waits for, in the order of its requests."""

from __future__ import annotations

import asyncio
from collections import deque

from kwire.server.network import connection_limits as limits
from kwire.server.network.outbox import Buffers

Answered = tuple[Buffers | None, int]
"""Response, or None for no response; and for how many milliseconds the client is muted after it."""


class Answer:
    """Place of one response in the queue: filled at once, or when its request is done."""

    __slots__ = ("buffers", "done", "frame_size", "holds_back", "only_waits", "throttle_ms", "waiting_for")

    def __init__(self, frame_size: int, *, holds_back: bool) -> None:
        """`holds_back` is True if no later request of the connection is served before this place is filled."""
        self.buffers: Buffers | None = None
        self.done = False
        self.frame_size = frame_size
        self.holds_back = holds_back
        self.only_waits = False
        """True if the request only waits: nothing needs to be completed if the client disconnects."""
        self.throttle_ms = 0
        self.waiting_for: asyncio.Future[object] | None = None
        """Running part of the request; until it ends, the request's frame counts as stored."""


class AnswerLine:
    """Queue of places for responses."""

    __slots__ = ("_answers", "is_held_back")

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self.is_held_back = False
        """True if a request that is not pipelined is being served."""

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, frame_size: int, *, holds_back: bool) -> Answer:
        """Add a place behind all others and return it."""
        answer = Answer(frame_size, holds_back=holds_back)
        self._answers.append(answer)
        self.is_held_back = self.is_held_back or holds_back
        return answer

    def add_filled(self, buffers: Buffers) -> None:
        """Add a finished response, which waits for those before it."""
        answer = self.add(0, holds_back=False)
        answer.buffers, answer.done = buffers, True

    def fill(self, answer: Answer, answered: Answered) -> list[Buffers]:
        """Fill a place; return the responses that can be sent now, in order."""
        answer.buffers, answer.throttle_ms = answered
        answer.done = True
        if answer.holds_back:
            self.is_held_back = False
        ready: list[Buffers] = []
        while self._answers and self._answers[0].done:
            buffers = self._answers.popleft().buffers
            if buffers is not None:
                ready.append(buffers)
        return ready

    def give_up_from(self, answer: Answer | None) -> None:
        """Remove a response that will not come, and those behind it, which the client
        would assign to the wrong request.
        """
        while answer in self._answers:
            self._answers.pop()

    def leave(self) -> list[Answer]:
        """Empty the queue; return the places whose requests are still running."""
        under_way = [answer for answer in self._answers if answer.waiting_for is not None]
        self._answers.clear()
        return under_way

    @property
    def frame_bytes(self) -> int:
        """Bytes of the requests of all places."""
        return sum([answer.frame_size for answer in self._answers])

    @property
    def long_frame_bytes(self) -> int:
        """Bytes of those requests that may have many elements."""
        sizes = [answer.frame_size for answer in self._answers]
        return sum([size for size in sizes if size > limits.LONG_REQUEST_BYTES])

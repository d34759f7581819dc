"""The answers that one client waits for, in the order of its requests."""

from __future__ import annotations

import asyncio
from collections import deque

from kwire.server.network import connection_limits as limits
from kwire.server.network.outbox import Buffers

Answered = tuple[Buffers | None, int]
"""An answer, None for none, and for how many milliseconds the client is muted after it."""


class Answer:
    """A place in the line: filled at once, or when its request is done."""

    __slots__ = ("buffers", "done", "frame_size", "holds_back", "only_waits", "throttle_ms", "waiting_for")

    def __init__(self, frame_size: int, *, holds_back: bool) -> None:
        """One that holds back has no request behind it served before it is filled."""
        self.buffers: Buffers | None = None
        self.done = False
        self.frame_size = frame_size
        self.holds_back = holds_back
        self.only_waits = False
        """Whether nothing is left to be done but to wait: nobody does when the client has gone."""
        self.throttle_ms = 0
        self.waiting_for: asyncio.Future[object] | None = None
        """What is still under way of the request, whose frame counts as stored until then."""


class AnswerLine:
    """Places for the answers to come."""

    __slots__ = ("_answers", "is_held_back")

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self.is_held_back = False
        """Whether a request that is not pipelined is being served."""

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, frame_size: int, *, holds_back: bool) -> Answer:
        """Return a place behind all others."""
        answer = Answer(frame_size, holds_back=holds_back)
        self._answers.append(answer)
        self.is_held_back = self.is_held_back or holds_back
        return answer

    def add_filled(self, buffers: Buffers) -> None:
        """Let an answer that is there wait for those before it."""
        answer = self.add(0, holds_back=False)
        answer.buffers, answer.done = buffers, True

    def fill(self, answer: Answer, answered: Answered) -> list[Buffers]:
        """Put an answer in its place; returns what leaves now, in order."""
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
        """Take out an answer that will not come, and those behind it, which would be taken for it."""
        while answer in self._answers:
            self._answers.pop()

    def leave(self) -> list[Answer]:
        """Empty the line; returns those places whose requests are still under way."""
        under_way = [answer for answer in self._answers if answer.waiting_for is not None]
        self._answers.clear()
        return under_way

    @property
    def frame_bytes(self) -> int:
        """Bytes of the requests."""
        return sum([answer.frame_size for answer in self._answers])

    @property
    def long_frame_bytes(self) -> int:
        """Bytes of those requests that may have many elements."""
        sizes = [answer.frame_size for answer in self._answers]
        return sum([size for size in sizes if size > limits.LONG_REQUEST_BYTES])

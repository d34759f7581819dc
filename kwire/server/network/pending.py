"""Requests that are not answered at once, and their places in a connection's line of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from kwire.server.network.outbox import Buffers
from kwire.server.network.turns import Share


class CloseConnection(Exception):  # noqa: N818 an instruction, not an error
    """The request leaves nothing to answer: close the connection. The message says why, for one log line."""


class Pending:
    """A request that has to wait: what it waits for, and how its result becomes an answer."""

    __slots__ = ("awaitable", "encode", "pipelined")

    def __init__(
        self, awaitable: Awaitable[Any], encode: Callable[[Any], Answered | Pieces], *, pipelined: bool
    ) -> None:
        """A pipelined request is encoded at once."""
        self.awaitable = awaitable
        self.encode = encode
        self.pipelined = pipelined


Answered = tuple[Buffers | None, int]
"""An answer, None for none, and for how many milliseconds the client is muted after it."""
Pieces = Generator[None, None, Answered | Pending]
"""Serves a request; yields wherever another connection may be served."""
Outcome = Answered | Pending | Pieces


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


class Work:
    """An answer that is being made in pieces."""

    __slots__ = ("answer", "pieces", "then")

    def __init__(self, pieces: Pieces, answer: Answer, share: Share) -> None:
        self.pieces = pieces
        self.answer = answer
        self.then: list[Callable[[], None]] = []
        """To be called when the answer is written or given up."""
        share.pieces_ms = 0.0

    def end(self) -> None:
        self.pieces.close()
        for call in self.then:
            call()


def after(work: Work | None, call: Callable[[], None]) -> None:
    """Call it when the answer in pieces that is under way is written or given up; now if there is none."""
    if work is None:
        call()
    else:
        work.then.append(call)

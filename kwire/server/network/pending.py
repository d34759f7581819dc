"""Requests that are not answered at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from kwire.server.network.answer_line import Answer, Answered
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


Pieces = Generator[None, None, Answered | Pending]
"""Serves a request; yields wherever another connection may be served."""
Outcome = Answered | Pending | Pieces


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

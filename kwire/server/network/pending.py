"""Requests that are not answered at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from kwire.server.network.flow.turns import Share
from kwire.server.network.response_queue import QueuedResponse, Response


class CloseConnection(Exception):  # noqa: N818 an instruction, not an error
    """Raised for a request without any response: closes the connection. The message says why, for one log line."""


class Pending:
    """Request that has to wait: its awaitable, and the function that makes a response of the result."""

    __slots__ = ("awaitable", "encode", "pipelined")

    def __init__(
        self, awaitable: Awaitable[Any], encode: Callable[[Any], Response | Pieces], *, pipelined: bool
    ) -> None:
        """`pipelined` requests are encoded at once, not in pieces."""
        self.awaitable = awaitable
        self.encode = encode
        self.pipelined = pipelined


Pieces = Generator[None, None, Response | Pending]
"""Generator that serves a request; it yields where another connection may be served."""
Outcome = Response | Pending | Pieces


class Work:
    """Response that is being made in pieces."""

    __slots__ = ("answer", "pieces", "when_written")

    def __init__(self, pieces: Pieces, answer: QueuedResponse, share: Share) -> None:
        self.pieces = pieces
        self.answer = answer
        self.when_written: list[Callable[[], None]] = []
        """Callbacks for when the response is written or dropped."""
        share.pieces_ms = 0.0

    def end(self) -> None:
        self.pieces.close()
        for call in self.when_written:
            call()


def after(work: Work | None, call: Callable[[], None]) -> None:
    """Call a function when the current response in pieces is written or dropped; now if there is none."""
    if work is None:
        call()
    else:
        work.when_written.append(call)

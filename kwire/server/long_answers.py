"""Answers that take long to make: few are begun at a time, and each turn of the event loop does a little of one.

Others are served in between, and what is half made of many answers cannot fill the memory. Who leaves is forgotten:
the rest of its answer is not made, nor does its request stay in memory. The work counts towards the client's quota.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from kwire.server.context import RequestContext

SLICE_MS: Final = 2.0
"""After so long others have their turn."""
AT_ONCE: Final = 8
"""So many are begun; the next waits until one of them is made."""

Pieces = Generator[None, None, Any]
"""Makes an answer; yields wherever others may have their turn, and returns the response."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Work:
    pieces: Pieces
    context: RequestContext
    future: asyncio.Future[Any]


class LongAnswers:
    """Those of one broker."""

    def __init__(self) -> None:
        self._waiting: deque[_Work] = deque()
        """In the order in which they were asked for, but for the first AT_ONCE, which take turns."""
        self._will_turn = False

    def make(self, pieces: Pieces, context: RequestContext) -> asyncio.Future[Any]:
        """The answer, when it is made; never before others have had a turn."""
        future = asyncio.get_running_loop().create_future()
        work = _Work(pieces=pieces, context=context, future=future)
        future.add_done_callback(lambda _: self._forget(work))
        self._waiting.append(work)
        self._turn_soon()
        return future

    def _forget(self, work: _Work) -> None:
        work.pieces.close()
        if work in self._waiting:
            self._waiting.remove(work)

    def _turn_soon(self) -> None:
        if self._waiting and not self._will_turn:
            self._will_turn = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._will_turn = False
        if not self._waiting:
            return
        work = self._waiting.popleft()
        quotas = work.context.services.quotas
        quotas.begin()
        self._go_on(work)
        if not work.future.done():
            self._waiting.insert(AT_ONCE - 1, work)
        if quotas.active:
            quotas.count_time(work.context)
        self._turn_soon()

    def _go_on(self, work: _Work) -> None:
        if work.future.done():  # its client left, which its callback is about to tell
            return
        clock = work.context.services.clock
        end_ms = clock.monotonic_ms() + SLICE_MS
        try:
            while True:
                next(work.pieces)
                if clock.monotonic_ms() >= end_ms:
                    return
        except StopIteration as end:
            work.future.set_result(end.value)
        except Exception as error:  # noqa: BLE001 handed to the connection, which logs it and closes
            work.future.set_exception(error)

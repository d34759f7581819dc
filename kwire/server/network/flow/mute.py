"""Mute of a connection whose client has exceeded a quota: the broker serves no request of it meanwhile (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Mute:
    """Mute of one connection. If it is muted several times, the mute that ends last counts."""

    __slots__ = ("_end", "_timer", "_until")

    def __init__(self, end: Callable[[], None]) -> None:
        """`end` is called when the connection is not muted any more."""
        self._end = end
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return self._timer is not None

    def begin(self, milliseconds: int) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + milliseconds / 1000.0
        if until <= self._until:
            return
        self._until = until
        self.cancel()
        self._timer = loop.call_later(milliseconds / 1000.0, self._over)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """End the mute for good: the connection is closed, and must not be kept by a reference."""
        self.cancel()
        self._end = _nothing

    def _over(self) -> None:
        self._timer = None
        self._end()


def _nothing() -> None:
    pass

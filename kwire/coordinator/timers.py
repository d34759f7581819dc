"""Named timers of one shard.

Scheduling a timer again changes its deadline. A later deadline only sets a field: the pending callback checks it when
it runs, and waits again. This keeps heartbeats, which only extend a deadline, cheap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

S = TypeVar("S")

_EARLY_S = 0.001
"""Seconds by which event loops may call a timer too early."""


class _Timer(Generic[S]):
    __slots__ = ("call_at", "deadline", "handle", "step")

    def __init__(self, deadline: float, step: S) -> None:
        self.deadline = deadline
        self.step = step
        self.call_at = deadline
        self.handle: asyncio.TimerHandle | None = None


class Timers(Generic[S]):
    """Timers by name; `run` is called with a timer's step when its deadline has passed."""

    def __init__(self, run: Callable[[S], None]) -> None:
        self._run = run
        self._timers: dict[Hashable, _Timer[S]] = {}

    def schedule(self, name: Hashable, delay_ms: float, step: S) -> None:
        """Schedule a step after delay_ms, replacing the timer of the same name."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + delay_ms / 1000.0
        timer = self._timers.get(name)
        if timer is None:
            timer = self._timers[name] = _Timer(deadline, step)
        else:
            timer.step = step
            timer.deadline = deadline
            if timer.call_at <= deadline:
                return
            assert timer.handle is not None
            timer.handle.cancel()
        self._arm(name, timer)

    def cancel(self, name: Hashable) -> None:
        """Cancel a timer; an unknown name is ignored."""
        timer = self._timers.pop(name, None)
        if timer is not None and timer.handle is not None:
            timer.handle.cancel()

    def cancel_all(self) -> None:
        for name in list(self._timers):
            self.cancel(name)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def _arm(self, name: Hashable, timer: _Timer[S]) -> None:
        timer.call_at = timer.deadline
        timer.handle = asyncio.get_running_loop().call_at(timer.deadline, self._fire, name)

    def _fire(self, name: Hashable) -> None:
        timer = self._timers[name]
        if timer.deadline > asyncio.get_running_loop().time() + _EARLY_S:
            self._arm(name, timer)
            return
        del self._timers[name]
        self._run(timer.step)

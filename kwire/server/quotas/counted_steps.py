"""Event loop time of a request after its first wait, for quotas of request_percentage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

from kwire.server.quotas.manager import ClientQuotaManager


class CountedSteps:
    """Wrapper of a handler's coroutine that counts the time of its steps, but not of its waits."""

    __slots__ = ("_awaitable", "_quotas", "spent_ms")

    def __init__(self, awaitable: Awaitable[Any], quotas: ClientQuotaManager) -> None:
        self._awaitable = awaitable
        self._quotas = quotas
        self.spent_ms = quotas.spent_ms()
        """Time that the request has used so far."""

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable.__await__()
        following: list[Callable[[], Any]] = [partial(next, steps)]
        while True:
            self._quotas.begin(self.spent_ms)
            try:
                # An error's traceback references this frame: a variable that references the error would be a cycle.
                waits_for = following.pop()()
            except StopIteration as end:
                return end.value
            finally:
                self.spent_ms = self._quotas.spent_ms()
            try:
                following.append(partial(steps.send, (yield waits_for)))
            except BaseException as error:  # noqa: BLE001 the handler's coroutine handles it
                following.append(partial(steps.throw, error))
            del waits_for  # it may reference the error

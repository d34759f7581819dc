"""Repeated calls of functions that may raise NotReadyError: in steps, or at once if blocking is allowed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from kwire.log.errors import NotReadyError

T = TypeVar("T")


def ready_in_steps(call: Callable[[], T]) -> Generator[None, None, T]:
    """Return the result of a call; yield while it is not ready."""
    while True:
        try:
            return call()
        except NotReadyError:
            pass
        yield


def ready_at_once(call: Callable[[], T]) -> T:
    """Return the result of a call without yielding, on a worker or where the call must not be delayed."""
    while True:
        try:
            return call()
        except NotReadyError:
            pass

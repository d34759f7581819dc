"""Calls of what may raise NotReadyError, repeated until they return: in steps, or at once where nothing waits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from kwire.log.errors import NotReadyError

T = TypeVar("T")


def ready_in_steps(call: Callable[[], T]) -> Generator[None, None, T]:
    """Return what a call returns; yield while it is not ready."""
    while True:
        try:
            return call()
        except NotReadyError:
            pass
        yield


def ready_at_once(call: Callable[[], T]) -> T:
    """Return what a call returns, on a worker or where it must not be put off."""
    while True:
        try:
            return call()
        except NotReadyError:
            pass

"""Wait for a condition with a deadline: tests wait in no other way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str, seconds: float = 15.0) -> T:
    """Return the first true value of the condition; an exception in the condition ends the wait."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        pause.wait(0.01)
    raise AssertionError(f"{what}: not within {seconds} s")


async def until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait on the event loop until a condition is true."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.001)

"""The event loop that the broker runs on: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a fresh loop and close the loop."""
    try:
        import uvloop  # noqa: PLC0415 not on every platform (pyproject.toml)
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)

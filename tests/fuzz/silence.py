"""Loggers that say nothing while a fuzzer breaks things on purpose."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent(name: str) -> Iterator[None]:
    """Let a logger and those below it say nothing."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)

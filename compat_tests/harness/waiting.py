"""Waiting for a condition with a deadline: the only kind of waiting these suites do."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlineExceededError(AssertionError):
    """The condition did not hold in time; the message says which."""


def eventually(condition: Callable[[], T], what: str, seconds: float = 20.0) -> T:
    """Return the condition's first true value; a condition that raises does not hold yet."""
    deadline = time.monotonic() + seconds
    problem: Exception | None = None
    while time.monotonic() < deadline:
        try:
            value = condition()
            problem = None
        except Exception as error:
            problem = error
        else:
            if value:
                return value
        time.sleep(0.05)
    raise DeadlineExceededError(f"{what}: not within {seconds} s") from problem

"""Wait for a condition with a deadline; these suites wait in no other way."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlineExceededError(AssertionError):
    """Error if the condition did not hold in time; the message names the condition."""


def eventually(condition: Callable[[], T], what: str, seconds: float = 20.0) -> T:
    """Return the condition's first true value; an exception in the condition counts as false."""
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

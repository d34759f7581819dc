"""What clients leave behind: freed at once if it is little, in turns with others if it may be millions of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kwire.chunks import step_line
from kwire.server.network.connection_limits import LONG_REQUEST_BYTES


def free(steps: Iterable[Callable[[], object]], request_bytes: int) -> None:
    """Call all steps, which free what was made of requests of so many bytes.

    One at a time would be as long as the line of steps is, when thousands of clients leave that had asked for little.
    """
    for step in steps:
        if request_bytes > LONG_REQUEST_BYTES:
            step_line().add(step)
        else:
            step()

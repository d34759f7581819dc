"""Objects of disconnected clients: a few are freed at once, millions of them in steps between requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kwire.chunks import step_line
from kwire.server.network.connection_limits import LONG_REQUEST_BYTES


def free(steps: Iterable[Callable[[], object]], request_bytes: int) -> None:
    """Call all steps, which free the objects of requests with `request_bytes` in all.

    If the requests are small, their objects are freed at once: with thousands of clients, queued steps would take
    longer.
    """
    for step in steps:
        if request_bytes > LONG_REQUEST_BYTES:
            step_line().add(step)
        else:
            step()

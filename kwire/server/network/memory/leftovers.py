"""Objects of disconnected clients: few are freed at once; possibly millions are freed in turns with requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kwire.chunks import step_line
from kwire.server.network.connection_limits import LONG_REQUEST_BYTES


def free(steps: Iterable[Callable[[], object]], request_bytes: int) -> None:
    """Call all steps, which free the objects of requests of so many bytes.

    Small ones are freed at once, because with thousands of clients the queue of steps would take longer.
    """
    for step in steps:
        if request_bytes > LONG_REQUEST_BYTES:
            step_line().add(step)
        else:
            step()

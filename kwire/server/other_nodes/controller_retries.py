"""Retries of requests to the active controller: the pauses, and the loops that send until it has stored everything.

An attempt fails while there is no active controller, or if the controller rejects the request for now. These requests
are retried until they succeed: the registration of a controller, the log directories of replicas, and changes of
in-sync sets. The registration of a broker and forwarded requests have a timeout; `ActiveController` retries them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

RETRY_SECONDS: Final = 0.5
"""Pause before the next attempt for a request that no client waits for."""
LEADER_RETRY_SECONDS: Final = 0.1
"""Pause for requests of clients. A change of leader ends it, so that it only matters after lost connections."""
IN_SYNC_RETRY_SECONDS: Final = 0.05
"""Pause for changes of in-sync sets: Produce requests with acks=all wait for them. It is Kafka's pause, too."""


async def until_stored(send: Callable[[], Awaitable[bool]], pause_seconds: float) -> None:
    """Call `send` until it returns True: then the controller has stored everything."""
    while not await send():
        await asyncio.sleep(pause_seconds)


async def send_when_woken(woken: asyncio.Event, send: Callable[[], Awaitable[bool]], pause_seconds: float) -> None:
    """Call `send` each time that `woken` is set, and again until it returns True. This never returns."""
    while True:
        await woken.wait()
        woken.clear()
        await until_stored(send, pause_seconds)

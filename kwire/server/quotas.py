"""The hook that says how long a client has to hold back.

Dispatch asks it after each request, puts the answer into throttle_time_ms and mutes the connection for that long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kwire.server.context import RequestContext


class Quotas(Protocol):
    """Measures requests and says how many milliseconds a client must wait."""

    def throttle_ms(self, context: RequestContext, response: Any, request_bytes: int) -> int: ...


class NoQuotas:
    """Nobody has to wait."""

    def throttle_ms(self, context: RequestContext, response: Any, request_bytes: int) -> int:
        return 0

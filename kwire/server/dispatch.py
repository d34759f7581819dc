"""From a frame to its handler and back to bytes: one table, API key -> message types, versions, handler.

ApiVersions answers from this table, so what is advertised is what is served. A request for an API or version that is
not in it closes the connection, as in Kafka, except for ApiVersions itself, which answers UNSUPPORTED_VERSION in
version 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import decode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.framing import encode_response, parse_request_header
from kwire.protocol.schema import schema_of
from kwire.server.authorization import ACCESS
from kwire.server.connection import Buffers, CloseConnection, Connection, Pending
from kwire.server.context import RequestContext

if TYPE_CHECKING:
    from kwire.server.services import Services

Handler = Callable[[Any, RequestContext], Any]
"""Gets (request, context); returns the response, None for no answer, or an awaitable of either.

A future that a handler hands back is cancelled when its client leaves; a coroutine runs to its end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row of the dispatch table."""

    request: type
    response: type
    handle: Handler
    advertised_min: int | None = None
    """Produce is advertised from version 0, which librdkafka looks for, though it is served from 3."""
    stable_max: int | None = None
    """The highest version served, where the newest declared one is not stable in 4.3.1."""
    pipelined: bool = False
    """Whether later requests of the connection may start while this one waits for its answer."""

    @property
    def key(self) -> ApiKey:
        key = schema_of(self.request).key
        assert key is not None
        return ApiKey(key)

    @property
    def min_version(self) -> int:
        return schema_of(self.request).versions.low

    @property
    def max_version(self) -> int:
        if self.stable_max is not None:
            return self.stable_max
        return schema_of(self.request).versions.high


class Dispatcher:
    """Serves frames of one listener."""

    def __init__(self, apis: Iterable[Api], services: Services, listener_name: str) -> None:
        self._table = {int(api.key): (api, api.key, api.min_version, api.max_version) for api in apis}
        self._services = services
        self._listener_name = listener_name
        unguarded = [key for _, key, _, _ in self._table.values() if key not in ACCESS]
        assert not unguarded, f"APIs without an entry in the authorisation table: {unguarded}"
        services.metrics.watch_apis(key for _, key, _, _ in self._table.values())

    def handle(self, connection: Connection, frame: bytearray) -> tuple[Buffers | None, int] | Pending:
        """Serve one request; raises ProtocolError or CloseConnection when it cannot be answered."""
        header = parse_request_header(frame)
        row = self._table.get(header.api_key)
        if row is None:
            raise CloseConnection(f"asked for API {header.api_key}, which is not served here")
        api, key, low, high = row
        version = header.api_version
        context = RequestContext(
            services=self._services,
            connection=connection,
            listener_name=self._listener_name,
            api_key=key,
            version=version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
        )
        if low <= version <= high:
            request: Any = decode(api.request, version, frame, header.body_position)
            outcome = api.handle(request, context)
        elif key is ApiKey.API_VERSIONS:
            context.version = 0
            outcome = self._services.unsupported_api_versions(context)
        else:
            raise CloseConnection(f"asked for {key.name} version {version}; served are {low} to {high}")
        self._services.metrics.request(key)
        encode = partial(self._encode, context, len(frame))
        if outcome is None or not (inspect.iscoroutine(outcome) or inspect.isawaitable(outcome)):
            return encode(outcome)
        return Pending(outcome, encode, pipelined=api.pipelined)

    def _encode(self, context: RequestContext, request_bytes: int, response: Any) -> tuple[Buffers | None, int]:
        if response is None:
            return None, 0
        throttle_ms = self._services.quotas.throttle_ms(context, response, request_bytes)
        if throttle_ms:
            response.throttle_time_ms = throttle_ms
        return encode_response(context.correlation_id, response, context.version), throttle_ms


__all__ = ["Api", "Awaitable", "Dispatcher", "Handler", "ProtocolError"]

"""Entries of the dispatch table: an API's messages, versions, handler, and the services that the handler needs.

This module is not compiled: mypyc cannot compile a generic dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, cast

from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import Decoder
from kwire.protocol.framing import Framer, PiecesFramer
from kwire.protocol.schema import schema_of
from kwire.server.requests.context import RequestContext
from kwire.server.requests.service_types import NeededT_contra, OtherT

Handler = Callable[[Any, RequestContext[NeededT_contra]], Any]
"""Function of (request, context) that returns the response, None for no response, or an awaitable of either.

A future that a handler returns (also a task) is cancelled when its client disconnects; a coroutine runs to its end.

A handler whose response may take longer than a millisecond is a generator. It yields at points where other requests may
run, and returns what another handler returns. Its response is encoded in pieces as well.
"""


@dataclass(frozen=True, slots=True)
class HandWrittenCodec:
    """Decoder and framers of an API that does not use the compiled codec; each is made for one version."""

    decoder: Callable[[int], Decoder[Any]]
    framer: Callable[[int], Framer]
    pieces_framer: Callable[[int], PiecesFramer]
    response: type
    """Type that the handler returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Generic[NeededT_contra]):
    """Entry of the dispatch table: one API, and the services that its handler needs."""

    request: type
    response: type
    handle: Handler[NeededT_contra]
    advertised_min: int | None = None
    """Lowest advertised version, if it is lower than the lowest one served. librdkafka requires that Produce 0 is
    advertised; kwire serves Produce from version 3.
    """
    is_advertised: bool = True
    """True if ApiVersions lists the API. As in Kafka, the telemetry APIs are served but not listed."""
    stable_max: int | None = None
    """Highest version served, if the newest declared one is not stable in 4.3.1."""
    pipelined: bool = False
    """True if later requests of the connection may start while the future that this one has returned waits."""
    elements_of: Callable[[Any], int] | None = None
    """Function that counts the elements of a response, so that a late large one is encoded in pieces; or None."""
    codec: HandWrittenCodec | None = None
    """Codec of the bodies in place of the one that is compiled from `request` and `response`."""

    def served_by(self, handle: Handler[OtherT]) -> Api[OtherT]:
        """Return the same API with another handler, which may need other services."""
        return dataclasses.replace(cast("Api[Any]", self), handle=handle)

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

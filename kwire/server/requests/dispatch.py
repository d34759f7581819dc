"""Dispatch of request frames to handlers, by one table: API key -> message types, versions, handler.

ApiVersions answers from this table, so the advertised APIs are the served ones. As in Kafka, a request for an API or
version that is not in the table closes the connection. The exception is ApiVersions, which answers
UNSUPPORTED_VERSION in version 0.

Everything that depends only on API and version (compiled decoder, handler) is looked up once and kept in a Route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Final, Generic

from kwire.chunks import at_once, is_in_pieces
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import Decoder, PiecesDecoder, decoder, pieces_decoder
from kwire.protocol.framing import Framer, PiecesFramer, framer, parse_request_header, pieces_framer
from kwire.server.network.connection import Connection
from kwire.server.network.connection_limits import LONG_REQUEST_BYTES
from kwire.server.network.pending import CloseConnection, Outcome, Pending, Pieces
from kwire.server.network.response_queue import Response
from kwire.server.quotas.counted_steps import CountedSteps
from kwire.server.requests.api import Api
from kwire.server.requests.authorization import ACCESS
from kwire.server.requests.context import RequestContext
from kwire.server.requests.service_types import DispatchedT

ENCODED_AT_ONCE: Final = 512
"""Elements of a response that are encoded in one step: some milliseconds."""


class Route:
    """Route of one API and version: its codec, its handler and its request count."""

    __slots__ = (
        "_decode_in_pieces",
        "_frame_in_pieces",
        "api",
        "count",
        "decode",
        "frame",
        "handle",
        "key",
        "pipelined",
        "response",
        "version",
    )

    def __init__(self, api: Api[Any], version: int) -> None:
        self.api = api
        self.key = api.key
        self.version = version
        self.handle = api.handle
        self.pipelined = api.pipelined
        self.count = 0
        self.response = api.response
        self.decode: Decoder[Any]
        self.frame: Framer
        if api.codec is None:
            self.decode, self.frame = decoder(api.request, version), framer(api.response, version)
        else:
            self.response = api.codec.response
            self.decode, self.frame = api.codec.decoder(version), api.codec.framer(version)
        self._decode_in_pieces: PiecesDecoder[Any] | None = None
        self._frame_in_pieces: PiecesFramer | None = None

    def decode_in_pieces(self) -> PiecesDecoder[Any]:
        """Return the decoder in pieces; it is compiled on first use, because most routes never need it."""
        if self._decode_in_pieces is None:
            self._decode_in_pieces = pieces_decoder(self.api.request, self.version)
        return self._decode_in_pieces

    def frame_in_pieces(self) -> PiecesFramer:
        if self._frame_in_pieces is None:
            codec = self.api.codec
            make = codec.pieces_framer if codec is not None else partial(pieces_framer, self.api.response)
            self._frame_in_pieces = make(self.version)
        return self._frame_in_pieces


class Dispatcher(Generic[DispatchedT]):
    """Dispatcher of the request frames of one listener."""

    def __init__(self, apis: Iterable[Api[DispatchedT]], services: DispatchedT, listener_name: str) -> None:
        self._apis = {int(api.key): api for api in apis}
        self._routes: dict[int, Route] = {}
        """Routes by API key and version, in one number."""
        self._services = services
        self._quotas = services.quotas
        self._listener_name = listener_name
        unguarded = [api.key for api in self._apis.values() if api.key not in ACCESS]
        assert not unguarded, f"APIs without an entry in the authorization table: {unguarded}"

    def handle(self, connection: Connection, frame: bytes) -> Outcome:
        """Serve one request. Raises ProtocolError or CloseConnection if it cannot be answered."""
        quotas = self._quotas
        if quotas.active:
            quotas.begin()
        header = parse_request_header(frame)
        version = header.api_version
        route = self._routes.get(header.api_key << 16 | version) or self._find(header.api_key, version)
        context = RequestContext(
            self._services,
            connection,
            self._listener_name,
            route.key,
            route.version,
            header.correlation_id,
            header.client_id,
        )
        if route.version != version:
            outcome = self._services.unsupported_api_versions(context)
        elif len(frame) > LONG_REQUEST_BYTES and route.api.codec is None:
            outcome = _read_and_handle(route, context, frame, header.body_position)
        else:
            outcome = route.handle(route.decode(frame, header.body_position)[0], context)
        route.count += 1
        if outcome.__class__ is route.response or outcome is None:
            return self._answer(route, context, len(frame), outcome)
        if is_in_pieces(outcome):
            try:
                next(outcome)
            except StopIteration as end:  # the first piece is the whole
                outcome = end.value
            else:
                spent_ms = quotas.spent_ms() if quotas.active else 0.0
                return self._in_pieces(outcome, route, context, len(frame), spent_ms)
            if outcome.__class__ is route.response or outcome is None:
                return self._answer(route, context, len(frame), outcome)
        # A coroutine has work left, and later requests must not start before it ends.
        is_future = isinstance(outcome, asyncio.Future)
        spent_ms = quotas.spent_ms() if quotas.active else 0.0
        counted = CountedSteps(outcome, quotas) if quotas.active and not is_future else None
        is_pipelined = route.pipelined and is_future
        answer = self._answer_later if is_pipelined else self._answer_large_later
        return Pending(
            counted or outcome,
            lambda response: answer(
                route, context, len(frame), response, spent_ms if counted is None else counted.spent_ms
            ),
            pipelined=is_pipelined,
        )

    def _find(self, key: int, version: int) -> Route:
        """Add and return the route of the first request of this API and version."""
        api = self._apis.get(key)
        if api is None:
            raise CloseConnection(f"asked for API {key}, which is not served here")
        if not api.min_version <= version <= api.max_version:
            if api.key is not ApiKey.API_VERSIONS:
                raise CloseConnection(
                    f"asked for {api.key.name} version {version}; served are {api.min_version} to {api.max_version}"
                )
            return Route(api, 0)
        route = self._routes[key << 16 | version] = Route(api, version)
        return route

    def _answer_large_later(
        self, route: Route, context: RequestContext[Any], request_bytes: int, response: Any, spent_ms: float
    ) -> Response | Pieces:
        """Encode a large response in pieces. Pipelined requests use `_answer_later`, which encodes at once."""
        elements_of = route.api.elements_of
        if elements_of is not None and is_in_pieces(response):
            return self._answer_in_pieces(route, context, request_bytes, response, spent_ms)
        if elements_of is not None and response is not None and elements_of(response) > ENCODED_AT_ONCE:
            return self._answer_in_pieces(route, context, request_bytes, response, spent_ms)
        return self._answer_later(route, context, request_bytes, response, spent_ms)

    def _answer_later(
        self, route: Route, context: RequestContext[Any], request_bytes: int, response: Any, spent_ms: float
    ) -> Response:
        if self._quotas.active:
            self._quotas.begin(spent_ms)
        if is_in_pieces(response):  # the request is small
            response = at_once(response)
        return self._answer(route, context, request_bytes, response)

    def _answer(self, route: Route, context: RequestContext[Any], request_bytes: int, response: Any) -> Response:
        quotas = self._quotas
        throttle_ms = quotas.throttle_ms(context, response, request_bytes) if quotas.active else 0
        if response is None:
            return None, throttle_ms
        return route.frame(context.correlation_id, response), throttle_ms

    def _in_pieces(
        self,
        pieces: Generator[None, None, Any],
        route: Route,
        context: RequestContext[Any],
        request_bytes: int,
        spent_ms: float,
    ) -> Pieces:
        """Serve the remaining pieces. All of them count towards the client's quota, also if the client disconnects."""
        quotas = self._quotas
        is_done = False
        try:
            while True:
                quotas.begin(spent_ms)
                next(pieces)
                spent_ms = quotas.spent_ms()
                yield
        except StopIteration as end:
            outcome = end.value
            spent_ms = quotas.spent_ms()
            is_done = True
        finally:
            pieces.close()
            if not is_done and quotas.active:
                quotas.begin(spent_ms)
                quotas.count_time(context)
        if outcome is None or outcome.__class__ is route.response:
            return (yield from self._answer_in_pieces(route, context, request_bytes, outcome, spent_ms))
        assert not route.pipelined, "a pipelined request is not served in pieces"
        return Pending(
            outcome,
            lambda response: self._answer_in_pieces(route, context, request_bytes, response, spent_ms),
            pipelined=False,
        )

    def _answer_in_pieces(
        self, route: Route, context: RequestContext[Any], request_bytes: int, response: Any, spent_ms: float
    ) -> Pieces:
        quotas = self._quotas
        quotas.begin(spent_ms)
        if is_in_pieces(response):
            response = yield from response
        throttle_ms = quotas.throttle_ms(context, response, request_bytes) if quotas.active else 0
        if response is None:
            return None, throttle_ms
        frame_in_pieces = route.frame_in_pieces()
        return (yield from frame_in_pieces(context.correlation_id, response)), throttle_ms

    def counts(self) -> dict[tuple[ApiKey, int], int]:
        """Return the requests served so far, by API and version."""
        return {(route.key, route.version): route.count for route in self._routes.values()}


def _read_and_handle(
    route: Route, context: RequestContext[Any], frame: bytes, position: int
) -> Generator[None, None, Any]:
    decode_in_pieces = route.decode_in_pieces()
    request, _ = yield from decode_in_pieces(frame, position)
    outcome = route.handle(request, context)
    if is_in_pieces(outcome):
        outcome = yield from outcome
    return outcome

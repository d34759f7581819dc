"""Connection to another node: requests in flight, responses in the order of the requests.

A connection begins with ApiVersions (KIP-511), so that each request is sent in the newest version that both nodes
support. If the other node's listener has SASL, the login follows. Requests wait here until the connection is open and
one of its REQUESTS_IN_FLIGHT_MAX places is free. Any error ends the connection and every request on it.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, Final, NamedTuple, cast

from kwire.protocol.api_keys import ApiKey
from kwire.protocol.error_codes import EncodeError, ErrorCode, ProtocolError
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchReplicaState, FetchRequest
from kwire.protocol.messages.vote import VoteRequest, VoteResponse
from kwire.protocol.requesting import frame_request, parse_response
from kwire.protocol.schema import schema_of
from kwire.server.network import forks
from kwire.server.network.outgoing.addresses import shown_address
from kwire.server.network.outgoing.security import PLAINTEXT, OutgoingSecurity
from kwire.server.security.sasl.client import NodeLogin

SOFTWARE_NAME: Final = "kwire"
API_VERSIONS_VERSION: Final = 3
"""Version of ApiVersions in the first request. Nodes of every later version answer it too."""
PRE_VOTE_SINCE: Final = 2
REPLICA_STATE_SINCE: Final = 15
"""First version of Fetch with the replica id in replica_state."""
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Largest response of any node. A leader's records are limited by topic settings alone, as in Apache Kafka."""
REQUESTS_IN_FLIGHT_MAX: Final = 5
"""Maximum requests in flight, Kafka's default for clients. It bounds the bytes in the transport and the requests that
the other node queues."""
_SIZE: Final = struct.Struct(">i")


class _Request(NamedTuple):
    """A request of this connection and the future of its response."""

    message: Any
    response: asyncio.Future[Any]


class _InFlight(NamedTuple):
    """A request that was sent, with the version and the correlation id that its response must have."""

    type: type
    version: int
    correlation_id: int
    response: asyncio.Future[Any]


class NodeConnection(asyncio.Protocol):
    """Connection to another node, from before it is opened until it is closed."""

    def __init__(
        self,
        *,
        client_id: str,
        software_version: str,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        security: OutgoingSecurity = PLAINTEXT,
    ) -> None:
        self._client_id = client_id
        self._security = security
        self._response_bytes_max = response_bytes_max
        self._software_version = software_version
        self._login = security.login
        self._logging_in: asyncio.Task[None] | None = None
        self._log_in_at: float | None = None
        """Time at which the next login is due; None without one."""
        self._is_ready = False
        """True if requests may be sent: the versions are known, and no login is going on."""
        self._where = ""
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        """API key to (lowest, highest) version of the other node; None until it has answered ApiVersions."""
        self._waiting: deque[_Request] = deque()
        self._in_flight: deque[_InFlight] = deque()
        self._received = bytearray()
        self._descriptor = forks.NO_SOCKET
        self._is_lost = False
        """True if the other node has closed the connection."""
        self.is_closed = False

    # --- for the channel

    def open(self, host: str, port: int) -> None:
        """Begin to connect; requests may be sent from now on."""
        self._where = shown_address(host, port)
        self._opening = asyncio.get_running_loop().create_task(self._open(host, port))

    def send(self, message: Any) -> asyncio.Future[Any]:
        """Return the future of a request's response. It raises OSError, ProtocolError, EncodeError or UnicodeError."""
        assert not self.is_closed, "a closed connection takes no request"
        request = _Request(message, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._send_waiting()
        return request.response

    @property
    def is_busy(self) -> bool:
        """True if requests wait for a response."""
        return bool(self._in_flight or self._waiting)

    @property
    def is_abandoned(self) -> bool:
        """True if no sender waits for the responses of this connection any more, though responses are due."""
        responses = self._responses()
        return bool(responses) and all(response.done() for response in responses)

    def close(self, error: Exception) -> None:
        """Close the connection; requests without a response raise `error`."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()  # a node that hangs would keep the unsent bytes for ever
        for response in self._responses():
            if not response.done():
                response.set_exception(error)
                response.exception()  # its sender may be cancelled in this turn: asyncio must not warn
        self._in_flight.clear()
        self._waiting.clear()
        self._received.clear()

    def _responses(self) -> list[asyncio.Future[Any]]:
        return [*(each.response for each in self._in_flight), *(each.response for each in self._waiting)]

    # --- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport has the same methods
        self._descriptor = forks.opened(transport)
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=self._software_version)
        versions: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._send(_Request(request, versions), API_VERSIONS_VERSION)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            while (frame := self._next_frame()) is not None:
                self._take(frame)
        except ProtocolError as error:
            self.close(error)
            return
        self._send_waiting()

    def eof_received(self) -> None:
        self._lose(ConnectionResetError("the connection was closed before the response"))

    def connection_lost(self, error: Exception | None) -> None:
        forks.closing(self._descriptor)
        self._lose(error or ConnectionResetError("the connection was closed before the response"))

    # --- requests out

    async def _open(self, host: str, port: int) -> None:
        try:
            await self._security.connect(self, host, port)
        except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
            self.close(error.with_traceback(None))  # its frames refer to this connection

    def _send_waiting(self) -> None:
        if self._is_ready and self._waiting and self._is_login_due():
            self._begin_login(self._login)
        while self._is_ready and self._waiting and len(self._in_flight) < REQUESTS_IN_FLIGHT_MAX:
            request = self._waiting.popleft()
            if request.response.done():  # cancelled while it waited
                continue
            try:
                self._send_in_newest_version(request)
            except (ProtocolError, EncodeError) as error:
                request.response.set_exception(error)

    def _send_in_newest_version(self, request: _Request) -> None:
        message = request.message
        version = self._version_of(message)
        if isinstance(message, VoteRequest) and version < PRE_VOTE_SINCE and _is_pre_vote(message):
            request.response.set_result(VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
            return
        if isinstance(message, FetchRequest) and version < REPLICA_STATE_SINCE:
            message.replica_id = message.replica_state.replica_id
            message.replica_state = FetchReplicaState()
        if isinstance(message, ApiVersionsRequest):  # the quorum code does not know the software's name
            message.client_software_name = SOFTWARE_NAME
            message.client_software_version = self._software_version
        self._send(request, version)

    def _version_of(self, message: Any) -> int:
        schema = schema_of(type(message))
        assert schema.key is not None
        assert self._versions is not None
        low, high = self._versions.get(schema.key, (0, -1))
        version = min(high, schema.versions.high)
        if version < max(low, schema.versions.low):
            raise ProtocolError(f"the other node does not support {ApiKey(schema.key).name}")
        return version

    def _send(self, request: _Request, version: int) -> None:
        assert self._transport is not None
        frame = frame_request(request.message, version, self._correlation_id + 1, self._client_id)
        self._correlation_id += 1
        self._in_flight.append(_InFlight(type(request.message), version, self._correlation_id, request.response))
        self._transport.write(frame)

    # --- login

    def _begin_login(self, login: NodeLogin | None) -> None:
        self._is_ready = login is None
        if login is not None:
            self._logging_in = asyncio.get_running_loop().create_task(self._log_in(login))

    def _is_login_due(self) -> bool:
        return self._log_in_at is not None and asyncio.get_running_loop().time() >= self._log_in_at

    async def _log_in(self, login: NodeLogin) -> None:
        try:
            seconds = await login.log_in(self._ask, where=self._where)
        except (OSError, ProtocolError, EncodeError) as error:
            self.close(error.with_traceback(None))
            return
        self._log_in_at = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._is_ready = True
        self._send_waiting()

    def _lose(self, error: Exception) -> None:
        """Close a connection that the other node has closed.

        A login goes on with the response that it has received: a rejection is the reason why the other node closes.
        """
        self._is_lost = True
        if self._logging_in is None or self._logging_in.done():
            self.close(error)
            return
        for each in self._in_flight:
            if not each.response.done():
                each.response.set_exception(error)
        self._logging_in.add_done_callback(lambda _: self.close(error))

    def _ask(self, message: Any) -> asyncio.Future[Any]:
        """Send a request of a login, before all requests that wait."""
        if self.is_closed or self._is_lost:
            raise ConnectionResetError("the connection was closed during the login")
        response = asyncio.get_running_loop().create_future()
        self._send(_Request(message, response), self._version_of(message))
        return response

    # --- responses in

    def _next_frame(self) -> bytes | None:
        if len(self._received) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._received)
        if not 0 < size <= self._response_bytes_max:
            raise ProtocolError(f"a response claims {size} bytes")
        if len(self._received) < _SIZE.size + size:
            return None
        with memoryview(self._received) as view:
            frame = bytes(view[_SIZE.size : _SIZE.size + size])
        del self._received[: _SIZE.size + size]
        return frame

    def _take(self, frame: bytes) -> None:
        """Set a response as the result of its request. Raises ProtocolError."""
        if not self._in_flight:
            raise ProtocolError("a response without a request")
        expected = self._in_flight[0]
        correlation_id, response = parse_response(expected.type, expected.version, frame)
        if correlation_id != expected.correlation_id:
            raise ProtocolError(f"request {expected.correlation_id} was answered as {correlation_id}")
        self._in_flight.popleft()
        if self._versions is None:
            self._take_versions(response)
        elif not expected.response.done():
            expected.response.set_result(response)

    def _take_versions(self, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            raise ProtocolError(f"ApiVersions was answered with error {response.error_code}")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._begin_login(self._login)


def _is_pre_vote(request: VoteRequest) -> bool:
    return any(partition.pre_vote for topic in request.topics for partition in topic.partitions)

"""The way to other nodes: one connection to each, on which requests follow one another.

Every connection begins with ApiVersions (KIP-511), so that each request goes out in the newest version that both sides
speak. Whatever goes wrong, a timeout too, closes the connection: the next request makes another.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import Any, Final

from kwire.cluster.quorum.ready import Destination
from kwire.cluster.raft_node import Unreachable
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.error_codes import EncodeError, ErrorCode, ProtocolError
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchReplicaState, FetchRequest
from kwire.protocol.messages.vote import VoteRequest, VoteResponse
from kwire.protocol.requesting import frame_request, parse_response
from kwire.protocol.schema import schema_of

logger = logging.getLogger("kwire.server.network.node_channel")

SOFTWARE_NAME: Final = "kwire"
API_VERSIONS_VERSION: Final = 3
"""With which every connection begins; nodes that know no newer one answer it too."""
PRE_VOTE_SINCE: Final = 2
REPLICA_STATE_SINCE: Final = 15
"""Before it, a Fetch says elsewhere which replica asks."""
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
_SIZE: Final = struct.Struct(">i")


class NodeChannel:
    """Implements kwire.cluster.raft_node.Channel over TCP."""

    def __init__(self, *, client_id: str, software_version: str, timeout_ms: int) -> None:
        self._client_id = client_id
        self._software_version = software_version
        self._timeout_seconds = timeout_ms / 1000
        self._idle: dict[tuple[str, int], _Connection] = {}
        self._is_closed = False

    async def send(self, destination: Destination, request: Any) -> Any:
        """The response; raises Unreachable when there will be none."""
        address = destination.host, destination.port
        connection = self._idle.pop(address, None)
        if connection is not None and connection.is_over:
            connection.close()
            connection = None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                if connection is None:
                    connection = await _Connection.open(address, self._client_id, self._software_version)
                response = await connection.ask(request)
        except (OSError, ProtocolError, EncodeError, UnicodeError) as error:  # the last: what is no host's name at all
            if connection is not None:
                connection.close()
            logger.debug("no answer from node %d at %s:%d: %s", destination.node_id, *address, error)
            raise Unreachable(f"node {destination.node_id} at {address[0]}:{address[1]}: {error}") from error
        except asyncio.CancelledError:
            if connection is not None:
                connection.close()
            raise
        self._put_back(address, connection)
        return response

    def close(self) -> None:
        """Hang up everywhere."""
        self._is_closed = True
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    def _put_back(self, address: tuple[str, int], connection: _Connection) -> None:
        if self._is_closed or address in self._idle:
            connection.close()
        else:
            self._idle[address] = connection


class _Connection:
    """One connection and what the node at its end speaks."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str, software_version: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._software_version = software_version
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}

    @classmethod
    async def open(cls, address: tuple[str, int], client_id: str, software_version: str) -> _Connection:
        """Connect, and learn which versions are spoken there. Raises OSError, ProtocolError."""
        reader, writer = await asyncio.open_connection(*address)
        connection = cls(reader, writer, client_id, software_version)
        try:
            request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=software_version)
            answer = await connection._exchange(request, API_VERSIONS_VERSION)
            if answer.error_code != ErrorCode.NONE:
                raise ProtocolError(f"ApiVersions was answered with error {answer.error_code}")
        except BaseException:
            connection.close()
            raise
        connection._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return connection

    async def ask(self, request: Any) -> Any:
        """The response in the newest version that both sides speak."""
        version = self._version_of(request)
        if isinstance(request, VoteRequest) and version < PRE_VOTE_SINCE and _is_pre_vote(request):
            return VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(request, FetchRequest) and version < REPLICA_STATE_SINCE:
            request.replica_id = request.replica_state.replica_id
            request.replica_state = FetchReplicaState()
        if isinstance(request, ApiVersionsRequest):  # the quorum does not know in which software it runs
            request.client_software_name = SOFTWARE_NAME
            request.client_software_version = self._software_version
        return await self._exchange(request, version)

    @property
    def is_over(self) -> bool:
        """Whether the other node has hung up, as it does when it restarts or has not been asked for long."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    def _version_of(self, request: Any) -> int:
        schema = schema_of(type(request))
        assert schema.key is not None
        low, high = self._versions.get(schema.key, (0, -1))
        version = min(high, schema.versions.high)
        if version < max(low, schema.versions.low):
            raise ProtocolError(f"the other node does not speak {ApiKey(schema.key).name}")
        return version

    async def _exchange(self, request: Any, version: int) -> Any:
        self._correlation_id += 1
        self._writer.write(frame_request(request, version, self._correlation_id, self._client_id))
        await self._writer.drain()
        try:
            (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
            if not 0 < size <= RESPONSE_BYTES_MAX:
                raise ProtocolError(f"a response claims {size} bytes")
            frame = await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the connection was closed before the answer") from error
        answered, response = parse_response(type(request), version, frame)
        if answered != self._correlation_id:
            raise ProtocolError(f"request {self._correlation_id} was answered as {answered}")
        return response


def _is_pre_vote(request: VoteRequest) -> bool:
    return any(partition.pre_vote for topic in request.topics for partition in topic.partitions)

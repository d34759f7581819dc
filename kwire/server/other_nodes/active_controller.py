"""Client of the active controller: serves a request in this process if this node leads the metadata log, else sends it.

A request of this node itself is sent as it is. A client's request is sent in an Envelope, with the client's principal
and address (KIP-590). A node that is no longer the leader answers NOT_CONTROLLER; the request is then sent to the next
leader.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, NoReturn

from kwire.chunks import in_turns, whole
from kwire.cluster.channel import Channel, Destination, Unreachable
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.envelope import EnvelopeRequest
from kwire.protocol.requesting import frame_request_in_pieces, parse_response_in_pieces
from kwire.seams import Clock
from kwire.server.other_nodes.controller_retries import LEADER_RETRY_SECONDS
from kwire.server.other_nodes.envelopes import encode_principal, says_not_controller
from kwire.server.requests.context import Client

logger = logging.getLogger(__name__)

SIZE_BYTES = 4
ENVELOPES_AT_ONCE = 32
"""Client requests that are sent to another node at the same time; further ones wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrigin:
    """Origin of a request to the controller: this node, or one of its clients."""

    client: Client
    client_id: str | None
    listener_name: str
    version: int | None
    """Version of the client's request; None for a request of this node itself, which is sent in the newest version."""
    correlation_id: int = 0


ServeHere = Callable[[Any, RequestOrigin], Any]
"""Function that serves a request as the active controller, now or later. Raises KafkaError NOT_CONTROLLER."""


class NoActiveControllerError(Exception):
    """Error of a request that no active controller has answered; the message says why."""


class ActiveController:
    """Client of the active controller, and its requests that wait for a response."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        channel: Channel,
        clock: Clock,
        here: ServeHere | None,
        itself: RequestOrigin,
        timeout_ms: int,
    ) -> None:
        """`here` serves the requests of this node while it leads; None on a node without a controller.

        `itself` is the origin of requests that this node makes itself. `timeout_ms` bounds all attempts of one request.
        """
        self._metadata_log = metadata_log
        self._channel = channel
        self._clock = clock
        self._here = here
        self._itself = itself
        self._timeout_ms = timeout_ms
        self._sends: dict[asyncio.Task[Any], int] = {}
        """Requests that wait for a response, with the id of the node that they were sent to."""
        self._controller_changed: asyncio.Event = asyncio.Event()
        self._envelopes = asyncio.Semaphore(ENVELOPES_AT_ONCE)

    async def send(self, request: Any, request_origin: RequestOrigin | None = None) -> Any:
        """Return the response of the current leader. Raises NoActiveControllerError, also for NOT_CONTROLLER."""
        request_origin = request_origin or self._itself
        if self._metadata_log.is_active and self._here is not None:
            response = await self._send_here(request, request_origin)
        else:
            leader = self._metadata_log.node.quorum.leader
            if leader is None:
                raise NoActiveControllerError("no controller is known to be active")
            response = await self._send_there(leader, request, request_origin)
        if says_not_controller(response):
            raise NoActiveControllerError("the requested controller is no longer active")
        return response

    async def send_until_answered(
        self, request: Any, request_origin: RequestOrigin | None = None, *, timeout_ms: int | None = None
    ) -> Any:
        """Return the response of the active controller; retry for `timeout_ms`, by default for the object's timeout.

        Raises KafkaError REQUEST_TIMED_OUT after that.
        """
        deadline_ms = self._clock.monotonic_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            self._controller_changed.clear()
            try:
                return await self.send(request, request_origin)
            except NoActiveControllerError as error:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{error}; {self._age()}") from error
            await self.pause()

    async def pause(self) -> None:
        """Wait before the next attempt; a change of the leader ends the wait."""
        try:
            async with asyncio.timeout(LEADER_RETRY_SECONDS):
                await self._controller_changed.wait()
        except TimeoutError:
            return
        self._controller_changed.clear()

    # --- one try

    async def _send_here(self, request: Any, request_origin: RequestOrigin) -> Any:
        assert self._here is not None
        try:
            return await whole(self._here(request, request_origin))
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            raise NoActiveControllerError("this controller is no longer active") from error

    async def _send_there(self, leader: Destination, request: Any, request_origin: RequestOrigin) -> Any:
        if request_origin.version is None:
            return await self._send(leader, request)
        frame = await in_turns(
            frame_request_in_pieces(
                request, request_origin.version, request_origin.correlation_id, request_origin.client_id
            )
        )
        client = request_origin.client
        envelope = EnvelopeRequest(
            request_data=frame[SIZE_BYTES:],
            request_principal=encode_principal(client.principal, token_authenticated=client.token_authenticated),
            client_host_address=ip_address(client.peer_host).packed,
        )
        async with self._envelopes:
            if self._metadata_log.node.quorum.leader != leader:  # it changed while this request waited for earlier ones
                raise NoActiveControllerError(f"node {leader.node_id} is no longer the leader")
            answer = await self._send(leader, envelope)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            raise NoActiveControllerError(f"node {leader.node_id} is not the active controller")
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            _rejected(leader, ErrorCode(answer.error_code))
        try:
            parsed = await in_turns(
                parse_response_in_pieces(type(request), request_origin.version, answer.response_data)
            )
            return parsed[1]
        except ProtocolError as error:
            name = type(request).__name__  # not the request: it may have secrets, as values of settings
            logger.warning("node %d sent an invalid response to %s: %s", leader.node_id, name, error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    async def _send(self, leader: Destination, request: Any) -> Any:
        """Send a request to a node. Raises NoActiveControllerError without a response, or if the leader changes."""
        send = asyncio.get_running_loop().create_task(self._channel.send(leader, request))
        self._sends[send] = leader.node_id
        try:
            return await send
        except Unreachable as error:
            raise NoActiveControllerError(str(error)) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if send.cancelled() and task is not None and not task.cancelling():
                raise NoActiveControllerError(f"node {leader.node_id} is no longer the leader") from None
            send.cancel()
            raise
        finally:
            del self._sends[send]
            del send  # the task refers to this frame by its exception's traceback: a cycle that keeps the request

    def _age(self) -> str:
        """Return the age of this node's metadata as text, for the error that no controller answers."""
        age_ms = self._metadata_log.node.metadata_age_ms
        if math.isinf(age_ms):
            return "no controller has answered this node yet"
        return f"this node's metadata are {age_ms / 1000:.0f} s old"

    def controller_changed(self) -> None:
        """End the waits for a former leader: requests to it are sent again, to the new one."""
        self._controller_changed.set()
        leader = self._metadata_log.node.quorum.leader
        if self._metadata_log.is_active or leader is not None:
            for send, node_id in self._sends.items():
                if leader is None or node_id != leader.node_id:
                    send.cancel()


def _rejected(leader: Destination, code: ErrorCode) -> NoReturn:
    """Log that the other node rejected the envelope, and raise UNKNOWN_SERVER_ERROR: as in Kafka, no retry helps."""
    logger.warning("node %d rejected a forwarded request: %s", leader.node_id, code.name)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

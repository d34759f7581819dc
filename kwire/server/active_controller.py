"""The way to the active controller: this very node while it leads the metadata log, else the one that does.

What this node asks for itself is sent as it is; what a client asked for goes in an Envelope, with who that was
(KIP-590). Whoever is asked and leads no more says NOT_CONTROLLER, and then the next one is asked.
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
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.quorum.ready import Destination
from kwire.cluster.raft_node import Channel, Unreachable
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.envelope import EnvelopeRequest
from kwire.protocol.requesting import frame_request_in_pieces, parse_response_in_pieces
from kwire.seams import Clock
from kwire.server.context import Client
from kwire.server.envelopes import encode_principal, says_not_controller

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
SIZE_BYTES = 4
ENVELOPES_AT_ONCE = 32
"""Requests of clients that are under way to another node; more of them wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who wants something of the controller."""

    client: Client
    client_id: str | None
    listener_name: str
    version: int | None
    """Of the request, as the client sent it; None for what this node asks for itself, in the newest version."""
    correlation_id: int = 0


ServeHere = Callable[[Any, Asker], Any]
"""Serves a request as the active controller: the response, or an awaitable of it. Raises KafkaError NOT_CONTROLLER."""


class NoController(Exception):  # noqa: N818 it says what is not there
    """Nobody who leads has answered; the message says why."""


class ActiveController:
    """Owns the requests that are under way to the active controller."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        channel: Channel,
        clock: Clock,
        here: ServeHere | None,
        itself: Asker,
        timeout_ms: int,
    ) -> None:
        """`here` serves what this node is asked for while it leads; None in a node that never does.

        `itself` is what this node asks as, and timeout_ms how long it tries in all.
        """
        self._metadata_log = metadata_log
        self._channel = channel
        self._clock = clock
        self._here = here
        self._itself = itself
        self._timeout_ms = timeout_ms
        self._sends: dict[asyncio.Task[Any], int] = {}
        """What is under way, and to which node."""
        self._leader_changed: asyncio.Event = asyncio.Event()
        self._envelopes = asyncio.Semaphore(ENVELOPES_AT_ONCE)
        metadata_log.watch_leader(self._note_leader)

    async def ask(self, request: Any, asker: Asker | None = None) -> Any:
        """The answer of whoever leads now. Raises NoController; a NOT_CONTROLLER answer counts as none."""
        asker = asker or self._itself
        if self._metadata_log.is_active and self._here is not None:
            response = await self._ask_here(request, asker)
        else:
            leader = self._metadata_log.node.quorum.leader
            if leader is None:
                raise NoController("no controller is known to be active")
            response = await self._ask_there(leader, request, asker)
        if says_not_controller(response):
            raise NoController("the controller that was asked is active no more")
        return response

    async def ask_until_answered(
        self, request: Any, asker: Asker | None = None, *, timeout_ms: int | None = None
    ) -> Any:
        """Return the answer of whichever controller leads, retrying for `timeout_ms` or the timeout of this object.

        Raises KafkaError REQUEST_TIMED_OUT in the end.
        """
        deadline_ms = self._clock.monotonic_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            self._leader_changed.clear()
            try:
                return await self.ask(request, asker)
            except NoController as error:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{error}; {self._age()}") from error
            await self.pause()

    async def pause(self) -> None:
        """Wait a moment before asking again, but not when somebody else leads now; once for each change."""
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._leader_changed.wait()
        except TimeoutError:
            return
        self._leader_changed.clear()

    # --- one try

    async def _ask_here(self, request: Any, asker: Asker) -> Any:
        assert self._here is not None
        try:
            return await whole(self._here(request, asker))
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            raise NoController("this controller is active no more") from error

    async def _ask_there(self, leader: Destination, request: Any, asker: Asker) -> Any:
        if asker.version is None:
            return await self._send(leader, request)
        frame = await in_turns(frame_request_in_pieces(request, asker.version, asker.correlation_id, asker.client_id))
        envelope = EnvelopeRequest(
            request_data=frame[SIZE_BYTES:],
            request_principal=encode_principal(asker.client.principal),
            client_host_address=ip_address(asker.client.peer_host).packed,
        )
        async with self._envelopes:
            if self._metadata_log.node.quorum.leader != leader:  # it changed while others were under way to it
                raise NoController(f"node {leader.node_id} leads no more")
            answer = await self._send(leader, envelope)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            raise NoController(f"node {leader.node_id} is not the active controller")
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            _refused(leader, ErrorCode(answer.error_code))
        try:
            parsed = await in_turns(parse_response_in_pieces(type(request), asker.version, answer.response_data))
            return parsed[1]
        except ProtocolError as error:
            logger.warning("node %d answered %s with what cannot be read: %s", leader.node_id, request, error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    async def _send(self, leader: Destination, request: Any) -> Any:
        """Raises NoController when there is no answer, or somebody else leads meanwhile."""
        send = asyncio.get_running_loop().create_task(self._channel.send(leader, request))
        self._sends[send] = leader.node_id
        try:
            return await send
        except Unreachable as error:
            raise NoController(str(error)) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if send.cancelled() and task is not None and not task.cancelling():
                raise NoController(f"node {leader.node_id} leads no more") from None
            send.cancel()
            raise
        finally:
            del self._sends[send]
            del send  # it has the exception, whose traceback has this frame: the request would stay

    def _age(self) -> str:
        """Age of this node's metadata, for the error that says that no controller answers."""
        age_ms = self._metadata_log.node.metadata_age_ms
        if math.isinf(age_ms):
            return "no controller has answered this node yet"
        return f"this node's metadata are {age_ms / 1000:.0f} s old"

    def _note_leader(self) -> None:
        self._leader_changed.set()
        leader = self._metadata_log.node.quorum.leader
        if self._metadata_log.is_active or leader is not None:
            for send, node_id in self._sends.items():
                if leader is None or node_id != leader.node_id:
                    send.cancel()


def _refused(leader: Destination, code: ErrorCode) -> NoReturn:
    """The other node could not take the envelope: a client can do nothing about it, as in Kafka."""
    logger.warning("node %d refused a forwarded request: %s", leader.node_id, code.name)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

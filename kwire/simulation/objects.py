"""Quorum messages passed between controllers as objects: without connections and codec, in a third of the time.

Time, order and faults are those of the links. A message between hosts is delayed, keeps its order, and waits while the
link is blocked. A message to a process that has ended gets no response, and the sender's request times out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.quorum.machine import REQUESTS
from kwire.protocol.schema import schema_of
from kwire.server.assembly.broker import BrokerServer
from kwire.server.assembly.controller_server import ControllerServer
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.network.outgoing.security import OutgoingSecurity
from kwire.server.security.sasl.node_logins import login_at_controllers

if TYPE_CHECKING:
    import asyncio

    from kwire.server.settings.config import BrokerConfig
    from kwire.simulation.hosts import Host, HostLoop, Process

AnyServer = BrokerServer | ControllerServer
VERSIONS: Final = {request: schema_of(request).versions.high for request in REQUESTS}


class Peer(Protocol):
    """Controller that messages are sent to."""

    host: Host

    @property
    def server(self) -> AnyServer: ...

    @property
    def is_serving(self) -> bool: ...


class Lane:
    """Ordered messages from one process to another."""

    def __init__(self, source: Host, target: HostLoop) -> None:
        self._network = source.network
        self._link = source.network.link(source.name, target.host.name)
        self._target = target
        self._arrive_at = 0.0
        self._stuck: deque[Callable[[], None]] = deque()
        """Messages that are due and wait for the link."""

    def send(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` in the target's process, after all earlier messages."""
        now = self._network.timeline.now
        self._arrive_at = max(self._arrive_at, now + self._link.seconds(0))
        self._target.call_later((self._arrive_at - now) * self._target.rate, self._arrive, deliver)

    def _arrive(self, deliver: Callable[[], None]) -> None:
        if not self._stuck and self._link.is_open:
            deliver()
            return
        if not self._stuck:
            self._link.when_open(self._find_out)
        self._stuck.append(deliver)

    def _find_out(self) -> None:
        self._network.later(self._link.retransmission_seconds(), self._go_on)

    def _go_on(self) -> None:
        if not self._link.is_open:
            self._link.when_open(self._find_out)
            return
        while self._stuck:
            self._target.call_soon(self._stuck.popleft())


class ObjectChannel(NodeChannel):
    """Channel to other controllers: messages of the quorum are passed as objects, all others as by NodeChannel."""

    def __init__(
        self,
        process: Process,
        peers: Mapping[str, Peer],
        *,
        listener: str,
        timeout_ms: int,
        security: OutgoingSecurity,
    ) -> None:
        super().__init__(client_id=process.host.name, software_version="1", timeout_ms=timeout_ms, security=security)
        self._loop = process.loop
        self._host = process.host
        self._peers = peers
        self._listener = listener
        self._seconds = timeout_ms / 1000
        self._lanes: dict[HostLoop, tuple[Lane, Lane]] = {}

    async def send(self, destination: Destination, request: Any) -> Any:
        version = VERSIONS.get(type(request))
        peer = self._peers.get(destination.host)
        if version is None or peer is None:
            return await super().send(destination, request)
        process = peer.host.process
        if process is None or not peer.is_serving:
            return await super().send(destination, request)  # rejected, or no response, as with a connection
        there, back = self._lanes_to(process.loop)
        answer: asyncio.Future[Any] = self._loop.create_future()
        timer = self._loop.call_later(self._seconds, _give_up, answer)
        there.send(lambda: self._handle(peer, request, version, back, answer))
        try:
            return await answer
        except TimeoutError as error:
            self._lanes.pop(process.loop, None)  # like a closed connection: later requests need not wait
            raise Unreachable(f"node {destination.node_id} does not answer") from error
        finally:
            timer.cancel()

    def _lanes_to(self, loop: HostLoop) -> tuple[Lane, Lane]:
        found = self._lanes.get(loop)
        if found is None:
            found = self._lanes[loop] = Lane(self._host, loop), Lane(loop.host, self._loop)
        return found

    def _handle(self, peer: Peer, request: Any, version: int, back: Lane, answer: asyncio.Future[Any]) -> None:
        """Serve a request in the peer's process."""
        self._host.note(f"{self._host.name}>{peer.host.name} {type(request).__name__}")
        if peer.is_serving:
            node = peer.server.metadata_log.node
            future = node.request(request, version=version, listener=self._listener)
            future.add_done_callback(lambda done: back.send(lambda: _tell(answer, done)))


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _tell(answer: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
    if not answer.done() and not done.cancelled():
        answer.set_result(done.result())


def object_channel(config: BrokerConfig, process: Process, peers: Sequence[Peer]) -> ObjectChannel:
    """Return the channel of a process to the other controllers."""
    listener = config.controller_listener_names[0]
    login = login_at_controllers(config, workers=process.workers, clock=process.clock)
    return ObjectChannel(
        process,
        {peer.host.name: peer for peer in peers},
        listener=listener,
        timeout_ms=config.parsed["controller.quorum.request.timeout.ms"],
        security=OutgoingSecurity(listener, None, login),
    )

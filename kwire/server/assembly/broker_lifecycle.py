"""Broker lifecycle after the registration: unfencing, heartbeats, controlled shutdown with the controller (KIP-631).

    register (broker_registrar.py) -> unfence -> heartbeats ... -> shut_down

Requests go to the leader of the metadata log, which may be this node.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.log.log_directory import LogDirectoryError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.seams import Clock
from kwire.server.assembly.broker_registrar import BrokerRegistrar
from kwire.server.other_nodes.active_controller import ActiveController, NoActiveControllerError
from kwire.server.replication.reported_directories import ReportedDirectories

logger = logging.getLogger(__name__)

FAST_HEARTBEAT_SECONDS = 0.05
"""Heartbeat interval of a broker that waits to be unfenced or to be allowed to shut down."""
HANDOVER_MS_MAX = 30_000
"""Longest wait of a stopping broker for other brokers to take over its leaderships."""
CONTROLLER_SILENCE_MS_MAX = 3000
"""Longest wait of a stopping broker for a controller that does not answer."""


class MetadataDiskFullError(LogDirectoryError):
    """Error of a broker that has to stop, because its disk has had no space for the metadata log for too long.

    If it sent heartbeats, it would be elected as a leader, and would serve partitions that other brokers now lead.
    """

    def __init__(self) -> None:
        super().__init__("the disk has no space for the metadata log, and the cluster goes on without this broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """Settings of heartbeats."""

    heartbeat_interval_ms: int = setting("broker.heartbeat.interval.ms")
    session_timeout_ms: int = setting("broker.session.timeout.ms")


class BrokerLifecycle:
    """Lifecycle of one broker process, from its unfencing to controlled shutdown."""

    def __init__(
        self,
        registrar: BrokerRegistrar,
        *,
        broker_id: int,
        settings: CurrentSettings,
        active_controller: ActiveController,
        metadata_log: MetadataLog,
        directories: ReportedDirectories,
        clock: Clock,
    ) -> None:
        self._registrar = registrar
        self._broker_id = broker_id
        self._settings = settings.of(LifecycleSettings)
        self._active_controller = active_controller
        self._metadata_log = metadata_log
        self._directories = directories
        self._clock = clock
        self._wants_to_stop = False
        self._woken = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._answered_ms = clock.monotonic_ms()
        self._last_error = ErrorCode.NONE
        """Error code of the last heartbeat response."""
        self._left_behind_since_ms: float | None = None
        """Time since which this node has no disk space for the active controller's epoch or records; None otherwise."""

    async def unfence(self) -> None:
        """Send heartbeats until the metadata show this broker as unfenced: then it may lead.

        One successful heartbeat is not enough: the controller may fence the broker again before the metadata arrive.

        Raises MetadataDiskFullError if this node cannot store the metadata. An unfenced broker may be elected, and this
        one would not receive its election.
        """
        while True:
            if self._is_metadata_stale:
                raise MetadataDiskFullError
            await self._send_heartbeat()
            try:
                async with asyncio.timeout(FAST_HEARTBEAT_SECONDS):
                    await self._metadata_log.reached(self._registrar.is_unfenced_in)
            except TimeoutError:
                continue
            return

    # --- heartbeats

    async def run(self) -> None:
        """Send heartbeats for as long as the broker runs.

        Raises MetadataDiskFullError if other brokers have taken over because this one cannot store the metadata.
        """
        interval_seconds = self._settings.heartbeat_interval_ms / 1000
        gives_up = False
        while not self._may_stop.is_set():
            await self._pause(FAST_HEARTBEAT_SECONDS if self._wants_to_stop else interval_seconds)
            if not self._wants_to_stop and self._is_metadata_stale:
                logger.error("the metadata log has no space: requesting other leaders for this broker's partitions")
                gives_up = self._wants_to_stop = True
            response = await self._send_heartbeat()
            if response is not None and response.should_shut_down:
                self._may_stop.set()
        if gives_up:
            raise MetadataDiskFullError

    def heartbeat_soon(self) -> None:
        """Send the next heartbeat at once: it reports a change that must reach the controller without delay."""
        self._woken.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    async def _send_heartbeat(self) -> BrokerHeartbeatResponse | None:
        """Send a heartbeat and return the response; None if there is none or it has an error code."""
        if not self._cannot_follow:
            self._left_behind_since_ms = None
        request = BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self._registrar.broker_epoch(),
            current_metadata_offset=self._metadata_log.applied_offset,
            want_shut_down=self._wants_to_stop,
            offline_log_dirs=self._directories.offline(),
            cordoned_log_dirs=self._directories.cordoned(self._metadata_log.image),
        )
        try:
            response: BrokerHeartbeatResponse = await self._active_controller.send(request)
        except (KafkaError, NoActiveControllerError) as error:
            logger.debug("no response to a heartbeat: %s", error)
            if self._clock.monotonic_ms() - self._answered_ms >= self._settings.session_timeout_ms:
                self._left_behind_since_ms = None  # no controller leads
            return None
        self._answered_ms = self._clock.monotonic_ms()
        if self._left_behind_since_ms is None and self._cannot_follow:
            self._left_behind_since_ms = self._answered_ms
        code = ErrorCode(response.error_code)
        if code is not self._last_error:
            self._last_error = code
            if code is not ErrorCode.NONE:
                logger.warning("heartbeats are rejected: %s", code.name)
        return response if code is ErrorCode.NONE else None

    @property
    def _is_metadata_stale(self) -> bool:
        """True if this broker could not store metadata for a session timeout, so that it has lost its leaderships.

        False if a majority of the controllers has no disk space: then nothing is committed, and the broker waits.
        """
        node = self._metadata_log.node
        session_ms = self._settings.session_timeout_ms
        if node.log.held_up_since_ms is not None and node.quorum.lacks_committed:
            return self._clock.monotonic_ms() - node.log.held_up_since_ms >= session_ms
        since_ms = self._left_behind_since_ms
        return since_ms is not None and self._cannot_follow and self._answered_ms - since_ms >= session_ms

    @property
    def _cannot_follow(self) -> bool:
        """True if this node has no disk space for the epoch or the records of the metadata log's leader."""
        return self._metadata_log.node.lacks_space and not self._metadata_log.is_active

    # --- controlled shutdown

    async def shut_down(self) -> None:
        """Hand over this broker's leaderships; return when other brokers have them, or after a timeout.

        Works only while `run` runs. The only broker of a cluster cannot hand over anything.
        """
        if not self._others_live:
            return
        self._wants_to_stop = True
        self._woken.set()
        began_ms = self._answered_ms = self._clock.monotonic_ms()
        while not self._may_stop.is_set():
            now_ms = self._clock.monotonic_ms()
            if now_ms - began_ms > HANDOVER_MS_MAX or now_ms - self._answered_ms > CONTROLLER_SILENCE_MS_MAX:
                logger.warning("stopping without confirmation that other brokers lead its partitions")
                return
            try:
                async with asyncio.timeout(FAST_HEARTBEAT_SECONDS):
                    await self._may_stop.wait()
            except TimeoutError:
                continue

    @property
    def _others_live(self) -> bool:
        brokers = self._metadata_log.image.brokers.values()
        return any(broker.broker_id != self._broker_id and not broker.fenced for broker in brokers)

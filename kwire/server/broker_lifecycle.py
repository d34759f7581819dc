"""Broker lifecycle: registration, unfencing, heartbeats and controlled shutdown with the controller (KIP-631).

    register -> (metadata contain it) -> unfence -> heartbeats ... -> shut_down

Requests go to the leader of the metadata log, which may be this node. A registration waits until the session of an
earlier process with the same id has ended, because that process may still run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.features import REGISTERED
from kwire.cluster.image import MetadataImage
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.registrations import Endpoint
from kwire.cluster.settings import CurrentSettings, setting
from kwire.log.log_directory import LogDirectoryError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock
from kwire.server.active_controller import ActiveController, NoActiveControllerError
from kwire.server.settings.config import BrokerConfig, SettingError

logger = logging.getLogger(__name__)

LOG_REASON_MS = 15_000
"""Wait before a broker logs why it is not registered yet. The session of a killed process has ended by then."""
FAST_HEARTBEAT_SECONDS = 0.05
"""Heartbeat interval of a broker that waits to be unfenced or to be allowed to shut down."""
HANDOVER_MS_MAX = 30_000
"""Longest wait of a stopping broker for other brokers to take over its leaderships."""
CONTROLLER_SILENCE_MS_MAX = 3000
"""Longest wait of a stopping broker for a controller that does not answer."""

_REFUSALS = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "node.id: another broker with id {node_id} is registered and lives; give "
    "this one an id of its own",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "log.dirs: the directories belong to another cluster than the controllers do; "
    "name directories that were formatted for theirs",
    ErrorCode.INVALID_REGISTRATION: "log.dirs: the controllers refuse the registration: {code}; a directory may be "
    "registered by another broker",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has finalized a feature level that this version does not support; use "
    "the version that the other nodes use",
}
_FINAL = frozenset(_REFUSALS) - {ErrorCode.DUPLICATE_BROKER_REGISTRATION}


class MetadataHeldUpError(LogDirectoryError):
    """Error of a disk that had no space for the metadata for so long that the cluster must go on without this broker.

    Because of its heartbeats this broker would be elected, and would serve consumers of
    partitions that others now lead.
    """

    def __init__(self) -> None:
        super().__init__("the disk has no space for the metadata log, and the cluster goes on without this broker")


def _not_known(_: MetadataImage) -> None:
    """Return None: the cordoned log directories are not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """Settings of registration and heartbeats."""

    registration_timeout_ms: int = setting("initial.broker.registration.timeout.ms")
    heartbeat_interval_ms: int = setting("broker.heartbeat.interval.ms")
    session_timeout_ms: int = setting("broker.session.timeout.ms")
    rack: str | None = setting("broker.rack")


class BrokerLifecycle:
    """Lifecycle of one broker process, from registration to controlled shutdown."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        settings: CurrentSettings,
        cluster_id: str,
        incarnation_id: UUID,
        previous_broker_epoch: int,
        active_controller: ActiveController,
        metadata_log: MetadataLog,
        clock: Clock,
        endpoints: Callable[[], Sequence[Endpoint]],
    ) -> None:
        """`endpoints` returns the advertised listeners; it is called for each registration."""
        self._config = config
        self._settings = settings.of(LifecycleSettings)
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._previous_broker_epoch = previous_broker_epoch
        self._active_controller = active_controller
        self._metadata_log = metadata_log
        self._clock = clock
        self._endpoints = endpoints
        self.offline_directories: Callable[[], Sequence[UUID]] = list
        """Returns the log directories that have failed while others work, once logs are open."""
        self.cordoned_directories: Callable[[MetadataImage], list[UUID] | None] = _not_known
        """Returns the log directories that get no new replicas, once logs are open; None if
        the metadata cannot store them.
        """
        self._why_not_yet = ""
        self._messages = RepeatedMessages(logger, clock.monotonic_ms)
        """Log of the error codes in registration responses, without repetitions."""
        self._wants_to_stop = False
        self._woken = asyncio.Event()
        self._let_go = asyncio.Event()
        self._answered_ms = clock.monotonic_ms()
        self._heard = ErrorCode.NONE
        """Error code of the last heartbeat response."""
        self._left_behind_since_ms: float | None = None
        """Since when a controller leads while this node has no space for the leader's epoch or metadata, or None."""
        self.broker_epoch = -1
        """Broker epoch of this process; -1 until it is registered."""

    # --- beginning

    async def await_metadata(self) -> None:
        """Return when a quorum has confirmed the metadata.

        Raises SettingError, or the error that prevents reading them.

        The log or snapshot stored on this node may be older than this broker's last registration.
        """
        log = self._metadata_log
        try:
            async with asyncio.timeout(self._settings.registration_timeout_ms / 1000):
                await log.caught_up()
        except TimeoutError as error:
            if log.node.quorum.has_seen_other_cluster:
                raise SettingError(
                    f"log.dirs: the directories belong to cluster {self._cluster_id}, and controllers that were asked "
                    "to another; name directories that were formatted for theirs, or other controllers"
                ) from error
            raise SettingError(
                "controller.quorum: no controllers lead that this node could find; start a majority of them, and look "
                "at controller.quorum.bootstrap.servers or controller.quorum.voters"
            ) from error

    async def register(self, directories: Sequence[UUID]) -> None:
        """Register, and return when the metadata contain this process.

        Raises SettingError, or the metadata log's error.

        `directories` are the log directories that are online.
        """
        request = self._registration(directories)
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + self._settings.registration_timeout_ms
        has_told = False
        epoch = None
        while epoch is None:
            now_ms = self._clock.monotonic_ms()
            epoch = await self._try_to_register(request, is_last=now_ms >= deadline_ms)
            if epoch is None:
                if not has_told and now_ms - began_ms >= LOG_REASON_MS:
                    has_told = True
                    logger.warning("waits to be registered: %s", self._why_not_yet)
                await self._active_controller.pause()
        self.broker_epoch = epoch
        await self._metadata_log.reached(self._is_registered_in)
        logger.info("registered as broker %d, epoch %d", self._config.node_id, epoch)

    async def _try_to_register(self, request: BrokerRegistrationRequest, *, is_last: bool) -> int | None:
        try:
            response = await self._active_controller.ask(request)
        except NoActiveControllerError as error:
            if is_last:
                raise SettingError(f"controller.quorum: no controller has registered this broker: {error}") from error
            self._why_not_yet = str(error)
            return None
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            epoch: int = response.broker_epoch
            return epoch
        known = _REFUSALS.get(code, "the controllers refuse the registration: {code}")
        self._why_not_yet = known.format(node_id=self._config.node_id, code=code.name)
        if code in _FINAL or is_last:
            raise SettingError(self._why_not_yet)
        self._messages.log(logging.INFO, code, "cannot register yet: %s", code.name)
        return None

    def _registration(self, directories: Sequence[UUID]) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationListener(
                    name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol
                )
                for end in self._endpoints()
            ],
            features=[
                BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in REGISTERED.items()
            ],
            rack=self._settings.rack,
            log_dirs=list(directories),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _is_registered_in(self, image: MetadataImage) -> bool:
        known = image.brokers.get(self._config.node_id)
        return known is not None and known.incarnation_id == self._incarnation_id

    async def unfence(self) -> None:
        """Send heartbeats until the metadata show this broker as unfenced: then it may lead.

        Heartbeats continue until then: the controller's decision may be outdated before it arrives here.

        Raises MetadataHeldUpError if it cannot arrive here: others would wait for a leader
        that does not know that it leads.
        """
        while True:
            if self._is_held_up:
                raise MetadataHeldUpError
            await self._send_heartbeat()
            try:
                async with asyncio.timeout(FAST_HEARTBEAT_SECONDS):
                    await self._metadata_log.reached(self._is_unfenced_in)
            except TimeoutError:
                continue
            return

    def _is_unfenced_in(self, image: MetadataImage) -> bool:
        return self._is_registered_in(image) and not image.brokers[self._config.node_id].fenced

    # --- living

    async def run(self) -> None:
        """Send heartbeats for as long as the broker runs.

        Raises MetadataHeldUpError if other brokers have taken over because this one
        cannot follow the metadata any more.
        """
        interval_seconds = self._settings.heartbeat_interval_ms / 1000
        gives_up = False
        while not self._let_go.is_set():
            await self._pause(FAST_HEARTBEAT_SECONDS if self._wants_to_stop else interval_seconds)
            if not self._wants_to_stop and self._is_held_up:
                logger.error("the metadata log has no space: asking for other leaders of this broker's partitions")
                gives_up = self._wants_to_stop = True
            response = await self._send_heartbeat()
            if response is not None and response.should_shut_down:
                self._let_go.set()
        if gives_up:
            raise MetadataHeldUpError

    def heartbeat_soon(self) -> None:
        """Send the next heartbeat at once: it reports a change that the controller should not learn late."""
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
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_log.applied_offset,
            want_shut_down=self._wants_to_stop,
            offline_log_dirs=list(self.offline_directories()),
            cordoned_log_dirs=self.cordoned_directories(self._metadata_log.image),
        )
        try:
            response: BrokerHeartbeatResponse = await self._active_controller.ask(request)
        except (KafkaError, NoActiveControllerError) as error:
            logger.debug("no answer to a heartbeat: %s", error)
            if self._clock.monotonic_ms() - self._answered_ms >= self._settings.session_timeout_ms:
                self._left_behind_since_ms = None  # no controller leads
            return None
        self._answered_ms = self._clock.monotonic_ms()
        if self._left_behind_since_ms is None and self._cannot_follow:
            self._left_behind_since_ms = self._answered_ms
        code = ErrorCode(response.error_code)
        if code is not self._heard:
            self._heard = code
            if code is not ErrorCode.NONE:
                logger.warning("heartbeats are refused: %s", code.name)
        return response if code is ErrorCode.NONE else None

    @property
    def _is_held_up(self) -> bool:
        """True if this broker has not received metadata for a session timeout, so that it has lost its leaderships.

        If too many nodes have no space for anything to be committed, it has missed nothing and waits for space.
        """
        node = self._metadata_log.node
        session_ms = self._settings.session_timeout_ms
        if node.log.held_up_since_ms is not None and node.quorum.lacks_committed:
            return self._clock.monotonic_ms() - node.log.held_up_since_ms >= session_ms
        since_ms = self._left_behind_since_ms
        return since_ms is not None and self._cannot_follow and self._answered_ms - since_ms >= session_ms

    @property
    def _cannot_follow(self) -> bool:
        """True if this node cannot follow the leader: it has no space for the epoch or for its records."""
        return self._metadata_log.node.lacks_space and not self._metadata_log.is_active

    # --- ending

    async def shut_down(self) -> None:
        """Hand over this broker's leaderships; return when other brokers have them, or after a timeout.

        Works only while `run` runs. The only broker of a cluster cannot hand over anything.
        """
        if not self._others_live:
            return
        self._wants_to_stop = True
        self._woken.set()
        began_ms = self._answered_ms = self._clock.monotonic_ms()
        while not self._let_go.is_set():
            now_ms = self._clock.monotonic_ms()
            if now_ms - began_ms > HANDOVER_MS_MAX or now_ms - self._answered_ms > CONTROLLER_SILENCE_MS_MAX:
                logger.warning("stopping without confirmation that other brokers lead its partitions")
                return
            try:
                async with asyncio.timeout(FAST_HEARTBEAT_SECONDS):
                    await self._let_go.wait()
            except TimeoutError:
                continue

    @property
    def _others_live(self) -> bool:
        brokers = self._metadata_log.image.brokers.values()
        return any(broker.broker_id != self._config.node_id and not broker.fenced for broker in brokers)

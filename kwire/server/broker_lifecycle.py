"""A broker's standing with the controller: registered, unfenced, heard of, and in the end let go (KIP-631).

    register -> (metadata say so) -> unfence -> heartbeats ... -> shut_down

Whoever leads the metadata log is asked, be it this very node. A registration waits for the session of an earlier
process with the same id to end, as nobody can know whether that one still lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from kwire.cluster.features import REGISTERED
from kwire.cluster.image import MetadataImage
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.registrations import Endpoint
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
from kwire.server.active_controller import ActiveController, NoController
from kwire.server.settings.config import BrokerConfig, SettingError

logger = logging.getLogger(__name__)

TELL_MS = 15_000
"""After which a broker that waits to be registered says why. The session of one that was killed is over by then."""
EAGER_SECONDS = 0.05
"""Between heartbeats of a broker that waits to be unfenced or to be let go."""
FAREWELL_MS = 30_000
"""How long a broker that stops waits at most for others to take over what it leads."""
SILENCE_MS = 3000
"""How long it waits for a controller that does not answer."""

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
    """The disk has had no space for the metadata for so long that the cluster must go on without this broker.

    It would be elected, as it seems to live, and would serve consumers of what others lead by now.
    """

    def __init__(self) -> None:
        super().__init__("the disk has no space for the metadata log, and the cluster goes on without this broker")


def _not_known(_: MetadataImage) -> None:
    """Return that it is not known yet which log directories are cordoned."""


class BrokerLifecycle:
    """One process of a broker, as the controller sees it."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        cluster_id: str,
        incarnation_id: UUID,
        previous_broker_epoch: int,
        active_controller: ActiveController,
        metadata_log: MetadataLog,
        clock: Clock,
        endpoints: Callable[[], Sequence[Endpoint]],
    ) -> None:
        """`endpoints` are what clients and other brokers are told, asked for each time."""
        self._config = config
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._previous_broker_epoch = previous_broker_epoch
        self._active_controller = active_controller
        self._metadata_log = metadata_log
        self._clock = clock
        self._endpoints = endpoints
        self.offline_directories: Callable[[], Sequence[UUID]] = list
        """The log directories that have failed while there are others, once logs are open."""
        self.cordoned_directories: Callable[[MetadataImage], list[UUID] | None] = _not_known
        """The log directories that get no new replicas, once logs are open; None if the metadata cannot say so."""
        self._why_not_yet = ""
        self._messages = RepeatedMessages(logger, clock.monotonic_ms)
        """What the last registration was answered."""
        self._wants_to_stop = False
        self._woken = asyncio.Event()
        self._let_go = asyncio.Event()
        self._answered_ms = clock.monotonic_ms()
        self._heard = ErrorCode.NONE
        """What the last heartbeat was answered."""
        self._left_behind_since_ms: float | None = None
        """Since when a controller leads, and this node has no space for as much as that."""
        self.broker_epoch = -1
        """Of this process; -1 until it is registered."""

    # --- beginning

    async def await_metadata(self) -> None:
        """Return when the metadata are those of a quorum. Raises SettingError, or why they cannot be read.

        Those that were stored here, or a snapshot of them, may be older than the last registration of this broker.
        """
        log = self._metadata_log
        try:
            async with asyncio.timeout(self._config["initial.broker.registration.timeout.ms"] / 1000):
                await log.caught_up()
        except TimeoutError as error:
            if log.node.quorum.has_met_strangers:
                raise SettingError(
                    f"log.dirs: the directories belong to cluster {self._cluster_id}, and controllers that were asked "
                    "to another; name directories that were formatted for theirs, or other controllers"
                ) from error
            raise SettingError(
                "controller.quorum: no controllers lead that this node could find; start a majority of them, and look "
                "at controller.quorum.bootstrap.servers or controller.quorum.voters"
            ) from error

    async def register(self, directories: Sequence[UUID]) -> None:
        """Return when the metadata name this process. Raises SettingError, or why the metadata log cannot go on.

        `directories` are those that are online.
        """
        request = self._registration(directories)
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + self._config["initial.broker.registration.timeout.ms"]
        has_told = False
        epoch = None
        while epoch is None:
            now_ms = self._clock.monotonic_ms()
            epoch = await self._try_to_register(request, is_last=now_ms >= deadline_ms)
            if epoch is None:
                if not has_told and now_ms - began_ms >= TELL_MS:
                    has_told = True
                    logger.warning("waits to be registered: %s", self._why_not_yet)
                await self._active_controller.pause()
        self.broker_epoch = epoch
        await self._metadata_log.reached(self._is_registered_in)
        logger.info("registered as broker %d, epoch %d", self._config.node_id, epoch)

    async def _try_to_register(self, request: BrokerRegistrationRequest, *, is_last: bool) -> int | None:
        try:
            response = await self._active_controller.ask(request)
        except NoController as error:
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
            rack=self._config["broker.rack"],
            log_dirs=list(directories),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _is_registered_in(self, image: MetadataImage) -> bool:
        known = image.brokers.get(self._config.node_id)
        return known is not None and known.incarnation_id == self._incarnation_id

    async def unfence(self) -> None:
        """Return when the metadata say that this broker lives: it may lead.

        Heartbeats go on until then: what the controllers decided may be over before it is heard of here.

        Raises MetadataHeldUpError when it cannot be heard of: others wait for what this broker seems to lead.
        """
        while True:
            if self._is_held_up:
                raise MetadataHeldUpError
            await self._beat()
            try:
                async with asyncio.timeout(EAGER_SECONDS):
                    await self._metadata_log.reached(self._is_unfenced_in)
            except TimeoutError:
                continue
            return

    def _is_unfenced_in(self, image: MetadataImage) -> bool:
        return self._is_registered_in(image) and not image.brokers[self._config.node_id].fenced

    # --- living

    async def run(self) -> None:
        """For as long as the broker runs: say so, now and then.

        Raises MetadataHeldUpError when others have taken over from a broker that hears of the metadata no more.
        """
        interval_seconds = self._config["broker.heartbeat.interval.ms"] / 1000
        gives_up = False
        while not self._let_go.is_set():
            await self._pause(EAGER_SECONDS if self._wants_to_stop else interval_seconds)
            if not self._wants_to_stop and self._is_held_up:
                logger.error("the metadata log has no space: others are asked to lead what this broker leads")
                gives_up = self._wants_to_stop = True
            response = await self._beat()
            if response is not None and response.should_shut_down:
                self._let_go.set()
        if gives_up:
            raise MetadataHeldUpError

    def beat_soon(self) -> None:
        """Send the next heartbeat at once: it tells of something that the controller should not learn late."""
        self._woken.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    async def _beat(self) -> BrokerHeartbeatResponse | None:
        """The answer to a heartbeat; None if there is none, or one that says why not."""
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
        except (KafkaError, NoController) as error:
            logger.debug("no answer to a heartbeat: %s", error)
            if self._clock.monotonic_ms() - self._answered_ms >= self._config["broker.session.timeout.ms"]:
                self._left_behind_since_ms = None  # nobody leads
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
        """Whether this broker has not heard for a session's time what it leads, and leads no more.

        Where too many have no space for anything to be committed it has missed nothing, and goes on when they have.
        """
        node = self._metadata_log.node
        session_ms: int = self._config["broker.session.timeout.ms"]
        if node.log.held_up_since_ms is not None and node.quorum.misses_committed:
            return self._clock.monotonic_ms() - node.log.held_up_since_ms >= session_ms
        since_ms = self._left_behind_since_ms
        return since_ms is not None and self._cannot_follow and self._answered_ms - since_ms >= session_ms

    @property
    def _cannot_follow(self) -> bool:
        """Whether whoever leads is not followed here: there is no space for the epoch, or for what vouches for it."""
        return self._metadata_log.node.lacks_space and not self._metadata_log.is_active

    # --- ending

    async def shut_down(self) -> None:
        """Give away what this broker leads; return when others have it, or when that takes too long.

        Only while `run` runs. A broker that is the only one has nobody to give anything to.
        """
        if not self._others_live:
            return
        self._wants_to_stop = True
        self._woken.set()
        began_ms = self._answered_ms = self._clock.monotonic_ms()
        while not self._let_go.is_set():
            now_ms = self._clock.monotonic_ms()
            if now_ms - began_ms > FAREWELL_MS or now_ms - self._answered_ms > SILENCE_MS:
                logger.warning("stopping though nobody may have taken over what this broker leads")
                return
            try:
                async with asyncio.timeout(EAGER_SECONDS):
                    await self._let_go.wait()
            except TimeoutError:
                continue

    @property
    def _others_live(self) -> bool:
        brokers = self._metadata_log.image.brokers.values()
        return any(broker.broker_id != self._config.node_id and not broker.fenced for broker in brokers)

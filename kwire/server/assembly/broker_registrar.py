"""Registration of a broker with the controller (KIP-631), and the broker epoch that it gets.

After an unclean end, a registration is rejected until the session of the previous process has expired. After a clean
shutdown it is accepted at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.registrations import Endpoint
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock
from kwire.server.other_nodes.active_controller import ActiveController, NoActiveControllerError
from kwire.server.settings.config import SettingError

logger = logging.getLogger(__name__)

LOG_REASON_MS = 15_000
"""Wait before a broker logs why it is not registered yet. The session of a killed process has ended by then."""

_REJECTIONS = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "node.id: another broker with id {node_id} is registered and alive; give "
    "this one an id of its own",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "log.dirs: the directories and the controllers belong to different clusters; "
    "use directories that were formatted for the controllers' cluster",
    ErrorCode.INVALID_REGISTRATION: "log.dirs: the controllers reject the registration: {code}; a directory may be "
    "registered by another broker",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has finalized a feature level that this version does not support; use "
    "the version that the other nodes use",
}
_FINAL = frozenset(_REJECTIONS) - {ErrorCode.DUPLICATE_BROKER_REGISTRATION}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationSettings:
    """Settings of the registration."""

    timeout_ms: int = setting("initial.broker.registration.timeout.ms")
    rack: str | None = setting("broker.rack")


class BrokerRegistrar:
    """Registration of this process as a broker."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: CurrentSettings,
        cluster_id: str,
        incarnation_id: UUID,
        previous_broker_epoch: int,
        active_controller: ActiveController,
        metadata_log: MetadataLog,
        clock: Clock,
        endpoints: Sequence[Endpoint],
    ) -> None:
        """`endpoints` are the advertised listeners."""
        self._broker_id = broker_id
        self._settings = settings.of(RegistrationSettings)
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._previous_broker_epoch = previous_broker_epoch
        self._active_controller = active_controller
        self._metadata_log = metadata_log
        self._clock = clock
        self._endpoints = endpoints
        self._last_rejection = ""
        self._messages = RepeatedMessages(logger, clock.monotonic_ms)
        """Log of the error codes in registration responses, without repetitions."""
        self._broker_epoch = -1

    def broker_epoch(self) -> int:
        """Return the broker epoch of this process; -1 until it is registered."""
        return self._broker_epoch

    def is_registered_in(self, image: MetadataImage) -> bool:
        """Return True if the metadata contain the registration of this process."""
        known = image.brokers.get(self._broker_id)
        return known is not None and known.incarnation_id == self._incarnation_id

    def is_unfenced_in(self, image: MetadataImage) -> bool:
        """Return True if this process may lead partitions according to the metadata."""
        return self.is_registered_in(image) and not image.brokers[self._broker_id].fenced

    async def await_metadata(self) -> None:
        """Return when the committed image has reached the high watermark of the metadata log's leader.

        Raises SettingError, or the log's failure.

        The log or snapshot stored on this node may be older than this broker's last registration.
        """
        log = self._metadata_log
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                await log.caught_up()
        except TimeoutError as error:
            if log.node.quorum.has_seen_other_cluster:
                raise SettingError(
                    f"log.dirs: the directories belong to cluster {self._cluster_id}, but the contacted controllers "
                    "belong to another; use directories that were formatted for that cluster, or other controllers"
                ) from error
            if log.node.quorum.is_denied:
                raise SettingError(
                    "super.users: the controllers deny requests of this node; allow its principal ClusterAction on the "
                    "cluster, or add it to super.users of the controllers"
                ) from error
            raise SettingError(
                "controller.quorum: no controllers lead that this node could find; start a majority of them, and look "
                "at controller.quorum.bootstrap.servers or controller.quorum.voters"
            ) from error

    async def register(self, directories: Sequence[UUID]) -> None:
        """Register, and return when the metadata contain this process. Raises SettingError, or the log's failure.

        `directories` are the log directories that are online.
        """
        request = self._registration(directories)
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + self._settings.timeout_ms
        has_logged = False
        epoch = None
        while epoch is None:
            now_ms = self._clock.monotonic_ms()
            epoch = await self._try_to_register(request, is_last=now_ms >= deadline_ms)
            if epoch is None:
                if not has_logged and now_ms - began_ms >= LOG_REASON_MS:
                    has_logged = True
                    logger.warning("waits to be registered: %s", self._last_rejection)
                await self._active_controller.pause()
        self._broker_epoch = epoch
        await self._metadata_log.reached(self.is_registered_in)
        logger.info("registered as broker %d, epoch %d", self._broker_id, epoch)

    async def _try_to_register(self, request: BrokerRegistrationRequest, *, is_last: bool) -> int | None:
        try:
            response = await self._active_controller.send(request)
        except NoActiveControllerError as error:
            if is_last:
                raise SettingError(f"controller.quorum: no controller has registered this broker: {error}") from error
            self._last_rejection = str(error)
            return None
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            epoch: int = response.broker_epoch
            return epoch
        known = _REJECTIONS.get(code, "the controllers reject the registration: {code}")
        self._last_rejection = known.format(node_id=self._broker_id, code=code.name)
        if code in _FINAL or is_last:
            raise SettingError(self._last_rejection)
        self._messages.log(logging.INFO, code, "cannot register yet: %s", code.name)
        return None

    def _registration(self, directories: Sequence[UUID]) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationListener(
                    name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol
                )
                for end in self._endpoints
            ],
            features=[
                BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED.items()
            ],
            rack=self._settings.rack,
            log_dirs=list(directories),
            previous_broker_epoch=self._previous_broker_epoch,
        )

"""Controller registration: a controller registers with the active one until the metadata contain it (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from uuid import UUID

from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.quorum.voters import Endpoints
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.controller_registration import (
    ControllerRegistrationFeature,
    ControllerRegistrationListener,
    ControllerRegistrationRequest,
)
from kwire.server.other_nodes.active_controller import ActiveController, NoActiveControllerError
from kwire.server.other_nodes.controller_retries import RETRY_SECONDS, until_stored
from kwire.server.settings.security_protocols import SecurityProtocol

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Interval of the check that the metadata still contain the registration."""


class ControllerRegistration:
    """Registration of one controller process."""

    def __init__(
        self,
        *,
        node_id: int,
        incarnation_id: UUID,
        endpoints: Endpoints,
        security_protocols: Mapping[str, SecurityProtocol],
        metadata_log: MetadataLog,
        active_controller: ActiveController,
    ) -> None:
        self._metadata_log = metadata_log
        self._active_controller = active_controller
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=incarnation_id,
            listeners=[
                ControllerRegistrationListener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=security_protocols[each.name],
                )
                for each in endpoints
            ],
            features=[
                ControllerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED.items()
            ],
        )

    async def run(self) -> None:
        """Keep this process registered for as long as the controller runs."""
        while True:
            await until_stored(self._register, RETRY_SECONDS)
            await asyncio.sleep(CHECK_SECONDS)

    async def _register(self) -> bool:
        """Register unless the metadata contain this process; return True if they do."""
        if self._is_known():
            return True
        try:
            response = await self._active_controller.send(self._request)
        except (KafkaError, NoActiveControllerError) as error:
            logger.debug("cannot register the controller yet: %s", error)
            return False
        if response.error_code != ErrorCode.NONE:
            logger.warning("cannot register the controller: %s", ErrorCode(response.error_code).name)
        return False

    def _is_known(self) -> bool:
        known = self._metadata_log.image.controllers.get(self._request.controller_id)
        return known is not None and known.incarnation_id == self._request.incarnation_id

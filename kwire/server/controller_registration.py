"""How a controller makes itself known: it registers with whoever leads until the metadata say so (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from kwire.cluster.features import SUPPORTED
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.quorum.voters import Endpoints
from kwire.cluster.raft_node import Channel, Unreachable
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.controller_registration import (
    ControllerRegistrationFeature,
    ControllerRegistrationListener,
    ControllerRegistrationRequest,
)

logger = logging.getLogger("kwire.server.controller")

RETRY_SECONDS = 0.5
LOOK_SECONDS = 1.0
"""How often it is looked whether the registration is still what it should be."""


class ControllerRegistration:
    """One process of a controller."""

    def __init__(
        self,
        *,
        node_id: int,
        incarnation_id: UUID,
        endpoints: Endpoints,
        metadata_log: MetadataLog,
        channel: Channel,
        register_here: Callable[[ControllerRegistrationRequest], Awaitable[None]],
    ) -> None:
        self._metadata_log = metadata_log
        self._channel = channel
        self._register_here = register_here
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=incarnation_id,
            listeners=[
                ControllerRegistrationListener(name=each.name, host=each.host, port=each.port) for each in endpoints
            ],
            features=[
                ControllerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED.items()
            ],
        )

    async def run(self) -> None:
        """For as long as the controller runs."""
        while True:
            if self._is_known():
                await asyncio.sleep(LOOK_SECONDS)
                continue
            try:
                await self._register()
            except (KafkaError, Unreachable) as error:
                logger.debug("cannot register the controller yet: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    def _is_known(self) -> bool:
        known = self._metadata_log.image.controllers.get(self._request.controller_id)
        return known is not None and known.incarnation_id == self._request.incarnation_id

    async def _register(self) -> None:
        """Ask whoever leads, once. Raises KafkaError, Unreachable."""
        if self._metadata_log.is_active:
            await self._register_here(self._request)
            return
        leader = self._metadata_log.node.quorum.leader
        if leader is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody is known to lead")
        response = await self._channel.send(leader, self._request)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code))

"""APIs of the active controller for brokers and controllers.

BrokerRegistration, BrokerHeartbeat, ControllerRegistration (KIP-631, KIP-919), AllocateProducerIds (KIP-730),
AlterPartition (KIP-497) and AssignReplicasToDirs (KIP-858). kwire.cluster.controller decides all of them. They are
served only on the listeners of controllers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kwire.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kwire.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext, ControllerServices

Serve = Callable[[Any, int, ControllerServices], Awaitable[Any]]
"""Function of (request, version, services) that returns the response. Raises KafkaError for the whole request."""


async def _register_broker(
    request: BrokerRegistrationRequest, version: int, services: ControllerServices
) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=await services.brokers.register_broker(request, version=version))


async def _heartbeat(
    request: BrokerHeartbeatRequest, version: int, services: ControllerServices
) -> BrokerHeartbeatResponse:
    return await services.brokers.heartbeat(request)


async def _register_controller(
    request: ControllerRegistrationRequest, version: int, services: ControllerServices
) -> ControllerRegistrationResponse:
    await services.brokers.register_controller(request)
    return ControllerRegistrationResponse()


async def _allocate_producer_ids(
    request: AllocateProducerIdsRequest, version: int, services: ControllerServices
) -> AllocateProducerIdsResponse:
    block = await services.brokers.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


async def _alter_partition(
    request: AlterPartitionRequest, version: int, services: ControllerServices
) -> AlterPartitionResponse:
    return await services.brokers.alter_partition(request, version=version)


async def _assign_directories(
    request: AssignReplicasToDirsRequest, version: int, services: ControllerServices
) -> AssignReplicasToDirsResponse:
    return await services.brokers.assign_directories(request)


def _api(request: type, response: type, serve: Serve) -> Api[ControllerServices]:
    async def handle_broker_control(message: Any, context: ControllerContext) -> Any:
        if not context.allows_cluster():
            return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        try:
            return await serve(message, context.version, context.services)
        except KafkaError as error:
            return response(error_code=error.code)

    return Api(request=request, response=response, handle=handle_broker_control)


APIS = (
    _api(BrokerRegistrationRequest, BrokerRegistrationResponse, _register_broker),
    _api(BrokerHeartbeatRequest, BrokerHeartbeatResponse, _heartbeat),
    _api(ControllerRegistrationRequest, ControllerRegistrationResponse, _register_controller),
    _api(AllocateProducerIdsRequest, AllocateProducerIdsResponse, _allocate_producer_ids),
    _api(AlterPartitionRequest, AlterPartitionResponse, _alter_partition),
    _api(AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, _assign_directories),
)

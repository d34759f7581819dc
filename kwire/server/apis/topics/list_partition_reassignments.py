"""ListPartitionReassignments: list the moves of replicas that are in progress (KIP-455)."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.cluster.controller.plans.reassignments import list_reassignments
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext


def handle_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: ControllerContext
) -> ListPartitionReassignmentsResponse | Pieces[ListPartitionReassignmentsResponse]:
    if not context.allows_cluster():
        return reject(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    services = context.services
    if not services.metadata_log.is_active:
        return reject(request, KafkaError(ErrorCode.NOT_CONTROLLER))
    return list_reassignments(services.image, request)


def reject(request: ListPartitionReassignmentsRequest, error: KafkaError) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message or error.code.meaning)


API = Api(
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    handle=handle_list_partition_reassignments,
)

"""AlterPartitionReassignments: move replicas to other brokers, or cancel a move (KIP-455)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext


async def handle_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: ControllerContext
) -> AlterPartitionReassignmentsResponse:
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if not request.topics:
            # Kafka sends the defaults of a new response if the request is empty.
            return AlterPartitionReassignmentsResponse(error_message="")
        return await context.services.brokers.reassign(request)
    except KafkaError as error:
        return reject(request, error)


def reject(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message or error.code.meaning)


API = Api(
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    handle=handle_alter_partition_reassignments,
)

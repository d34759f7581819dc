"""ListPartitionReassignments: moves of replicas that are under way. With one broker there are none (KIP-455)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    if not context.allows_cluster():
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.meaning)
    return ListPartitionReassignmentsResponse(error_message=None)


API = Api(request=ListPartitionReassignmentsRequest, response=ListPartitionReassignmentsResponse, handle=handle)

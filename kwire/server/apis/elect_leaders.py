"""ElectLeaders: give partitions to their preferred replicas, or to any where data may be lost (KIP-183, KIP-460)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.services import of_controller

TOP_LEVEL_ERROR_SINCE = 1


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if request.topic_partitions == []:
            return ElectLeadersResponse()  # nothing to elect, whatever the kind of election
        return await of_controller(context).brokers.elect_leaders(request)
    except KafkaError as error:
        response = refuse(request, error)
        if context.version < TOP_LEVEL_ERROR_SINCE:
            response.error_code = ErrorCode.NONE
        return response


def refuse(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The error for the whole, and for each partition that is named."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    ElectLeadersPartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message or error.code.meaning
                    )
                    for index in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions or ()
        ],
    )


API = Api(request=ElectLeadersRequest, response=ElectLeadersResponse, handle=handle)

"""ElectLeaders: elect the preferred replicas, or, with unclean elections, any replica (KIP-183, KIP-460)."""

from __future__ import annotations

from kwire.chunks import Pieces, in_turns, mapped_by_group
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)
from kwire.server.other_nodes.forwarding import request_origin_of
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext

TOP_LEVEL_ERROR_SINCE = 1


async def handle_elect_leaders(request: ElectLeadersRequest, context: ControllerContext) -> ElectLeadersResponse:
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if request.topic_partitions == []:
            return ElectLeadersResponse()  # nothing to elect, whatever the kind of election
        return await context.services.brokers.elect_leaders(request)
    except KafkaError as error:
        return await in_turns(_rejected(request, error, context.version))


async def handle_at_broker(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    try:
        response: ElectLeadersResponse = await context.services.active_controller.send_until_answered(
            request, request_origin_of(context)
        )
    except KafkaError as error:
        return await in_turns(_rejected(request, error, context.version))
    return response


def _rejected(request: ElectLeadersRequest, error: KafkaError, version: int) -> Pieces[ElectLeadersResponse]:
    """Return the error for the whole request, if the version has a field for it, and for each named partition."""
    results = yield from mapped_by_group(
        request.topic_partitions or (),
        lambda requested: requested.partitions,
        lambda _, index: ElectLeadersPartitionResult(
            partition_id=index, error_code=error.code, error_message=error.message or error.code.meaning
        ),
        lambda requested, partitions: ReplicaElectionResult(topic=requested.topic, partition_result=partitions),
    )
    return ElectLeadersResponse(
        error_code=error.code if version >= TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE, replica_election_results=results
    )


API = Api(
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    handle=handle_elect_leaders,
    elements_of=lambda response: sum(len(topic.partition_result) + 1 for topic in response.replica_election_results),
)
AT_BROKER = API.served_by(handle_at_broker)

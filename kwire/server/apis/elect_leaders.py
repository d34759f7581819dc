"""ElectLeaders: give partitions back to preferred replicas. With one broker, every leader is one (KIP-183, KIP-460)."""

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

PREFERRED, UNCLEAN = 0, 1


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if request.topic_partitions == [] and context.allows_cluster():
        return ElectLeadersResponse()  # nothing to elect, whatever the kind of election
    refusal = _refusal(request, context)
    if request.topic_partitions is None:
        if refusal is not None:
            return _answer(refusal, [], context)
        # Partitions that need no election are left out when all are asked for.
        return _answer(None, [ReplicaElectionResult(topic=name) for name in context.services.image.topics], context)
    results = [
        ReplicaElectionResult(
            topic=wanted.topic,
            partition_result=[_result(wanted.topic, index, refusal, context) for index in wanted.partitions],
        )
        for wanted in request.topic_partitions
    ]
    return _answer(refusal, results, context)


def _refusal(request: ElectLeadersRequest, context: RequestContext) -> KafkaError | None:
    if not context.allows_cluster():
        return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.election_type not in (PREFERRED, UNCLEAN):
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    return None


def _answer(
    refusal: KafkaError | None, results: list[ReplicaElectionResult], context: RequestContext
) -> ElectLeadersResponse:
    response = ElectLeadersResponse(replica_election_results=results)
    if refusal is not None and context.version >= 1:
        response.error_code = refusal.code
    return response


def _result(topic: str, index: int, refusal: KafkaError | None, context: RequestContext) -> ElectLeadersPartitionResult:
    error = refusal or _why_not(topic, index, context)
    return ElectLeadersPartitionResult(
        partition_id=index, error_code=error.code, error_message=error.message or error.code.meaning
    )


def _why_not(topic: str, index: int, context: RequestContext) -> KafkaError:
    image = context.services.image.topics.get(topic)
    if image is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if not 0 <= index < len(image.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


API = Api(request=ElectLeadersRequest, response=ElectLeadersResponse, handle=handle)

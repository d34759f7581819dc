"""AlterPartitionReassignments: move replicas to other brokers. There is one: all replicas are there (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> AlterPartitionReassignmentsResponse:
    if not context.allows_cluster():
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.meaning)
    response = AlterPartitionReassignmentsResponse(
        # Kafka sends a new answer's defaults when nothing is asked.
        error_message=None if request.topics else "",
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_partition(topic.name, each, context) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )
    if context.version >= 1 and request.topics:
        response.allow_replication_factor_change = request.allow_replication_factor_change
    return response


def _partition(topic: str, wanted: ReassignablePartition, context: RequestContext) -> ReassignablePartitionResponse:
    try:
        _check(topic, wanted, context)
    except KafkaError as error:
        return ReassignablePartitionResponse(
            partition_index=wanted.partition_index, error_code=error.code, error_message=error.message
        )
    return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)


def _check(topic: str, wanted: ReassignablePartition, context: RequestContext) -> None:
    image = context.services.controller.image
    index = wanted.partition_index
    found = image.topics.get(topic)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if not 0 <= index < len(found.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    why = _why_impossible(wanted.replicas, known=image.brokers.keys())
    if why:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {why}")
    # What remains is the assignment that the partition has: there is nothing to move.


def _why_impossible(replicas: Sequence[int], *, known: Collection[int]) -> str | None:
    if not replicas:
        return "an empty replica list."
    previous = None
    for broker in sorted(replicas):
        if broker == previous:
            return f"the broker {broker} more than once."
        if broker not in known:
            return f"broker {broker}, but no such broker is registered."
        previous = broker
    return None


API = Api(request=AlterPartitionReassignmentsRequest, response=AlterPartitionReassignmentsResponse, handle=handle)

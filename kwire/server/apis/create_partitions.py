"""CreatePartitions: grow topics."""

from __future__ import annotations

from collections import Counter

from kwire.chunks import CHUNK, chunks, turn
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.services import of_controller

STRICT_QUOTA_SINCE = 3


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    repeats = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    accepted: list[CreatePartitionsTopic] = []
    for some in chunks(request.topics):
        for topic in some:
            if repeats[topic.name] > 1:
                error = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results[topic.name] = _result(topic.name, error)
            elif not context.allows_topic(topic.name):
                results[topic.name] = _result(topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            else:
                accepted.append(topic)
        if len(some) == CHUNK:
            await turn()
    wishes = [
        (
            topic.name,
            topic.count,
            None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in accepted
    ]
    services = of_controller(context)
    quota = services.quotas.mutations(context, strict_since=STRICT_QUOTA_SINCE)
    outcomes = await services.controller.create_partitions(
        wishes, validate_only=request.validate_only, count=quota.record
    )
    for topic, outcome in zip(accepted, outcomes, strict=True):
        results[topic.name] = _result(topic.name, outcome)
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=list(results.values()))


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    # Unlike elsewhere, an error without a message of its own has none on the wire.
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)


def refuse(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[_result(name, error) for name in {topic.name: None for topic in request.topics}]
    )


API = Api(request=CreatePartitionsRequest, response=CreatePartitionsResponse, handle=handle)

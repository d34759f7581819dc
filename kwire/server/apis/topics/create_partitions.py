"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from kwire.chunks import CHUNK, Pieces, chunks, in_turns, mapped, mapped_by_group, turn
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kwire.repeats import repeated
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext

STRICT_QUOTA_SINCE = 3


async def handle_create_partitions(
    request: CreatePartitionsRequest, context: ControllerContext
) -> CreatePartitionsResponse:
    repeats = await in_turns(repeated(topic.name for topic in request.topics))
    rejected: dict[str, CreatePartitionsTopicResult] = {}
    accepted: list[CreatePartitionsTopic] = []
    for some in chunks(request.topics):
        for topic in some:
            if topic.name in repeats:
                error = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                rejected[topic.name] = _result(topic.name, error)
            elif not context.allows_topic(topic.name):
                rejected[topic.name] = _result(topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            else:
                accepted.append(topic)
        if len(some) == CHUNK:
            await turn()
    requested = await in_turns(
        mapped_by_group(
            accepted,
            lambda topic: topic.assignments or (),
            lambda _, assignment: assignment.broker_ids,
            lambda topic, replicas: (topic.name, topic.count, None if topic.assignments is None else replicas),
        )
    )
    services = context.services
    quota = services.quotas.mutations(context, strict_since=STRICT_QUOTA_SINCE)
    outcomes = await services.controller.create_partitions(
        requested, validate_only=request.validate_only, count=quota.record
    )
    results = await in_turns(
        mapped(zip(accepted, outcomes, strict=True), lambda outcome: _result(outcome[0].name, outcome[1]))
    )
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=[*rejected.values(), *results])


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    # Unlike in other APIs, an error without a message of its own has a null message in the response.
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)


def reject(request: CreatePartitionsRequest, error: KafkaError) -> Pieces[CreatePartitionsResponse]:
    names = yield from mapped(request.topics, lambda topic: topic.name)
    results = yield from mapped(dict.fromkeys(names), lambda name: _result(name, error))
    return CreatePartitionsResponse(results=results)


API = Api(request=CreatePartitionsRequest, response=CreatePartitionsResponse, handle=handle_create_partitions)

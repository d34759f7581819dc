"""CreateTopics: each topic on its own; one that is refused leaves the others alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable

from kwire.chunks import CHUNK, chunks, in_turns, mapped, turn
from kwire.cluster.controller.topics import CreatedTopic, NewTopic
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.services import of_controller

CONFIGS_SINCE = 5
STRICT_QUOTA_SINCE = 6


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    results: dict[str, CreatableTopicResult] = {}
    accepted = []
    repeats = Counter(topic.name for topic in request.topics)
    for some in chunks(request.topics):
        for topic in some:
            if repeats[topic.name] > 1:
                results[topic.name] = _error(topic.name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            elif not (context.allows_cluster() or context.allows_topic(topic.name)):
                results[topic.name] = _error(
                    topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
                )
            else:
                accepted.append(topic)
        if len(some) == CHUNK:
            await turn()
    services = of_controller(context)
    quota = services.quotas.mutations(context, strict_since=STRICT_QUOTA_SINCE)
    outcomes = await services.controller.create_topics(
        await in_turns(mapped(accepted, _wish)), validate_only=request.validate_only, count=quota.record
    )
    await in_turns(_describe(zip(accepted, outcomes, strict=True), results, context))
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=list(results.values()))


def _describe(
    outcomes: Iterable[tuple[CreatableTopic, CreatedTopic | KafkaError]],
    results: dict[str, CreatableTopicResult],
    context: RequestContext,
) -> Generator[None, None, None]:
    """Describe each topic with all its configurations, which takes longer than to create it."""
    for topic, outcome in outcomes:
        yield
        if isinstance(outcome, KafkaError):
            results[topic.name] = _error(topic.name, outcome)
        else:
            results[topic.name] = _created(topic, outcome, context)


def _wish(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _error(name: str, error: KafkaError) -> CreatableTopicResult:
    message = error.message
    if message is None and error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        message = error.code.meaning
    return CreatableTopicResult(name=name, error_code=error.code, error_message=message, configs=[])


def _created(topic: CreatableTopic, created: CreatedTopic, context: RequestContext) -> CreatableTopicResult:
    if context.version < CONFIGS_SINCE:
        return CreatableTopicResult(name=created.name, error_message=None)
    services = of_controller(context)
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    entries = services.config_entries.of_topic(overrides)
    return CreatableTopicResult(
        name=created.name,
        topic_id=created.topic_id,
        num_partitions=created.num_partitions,
        replication_factor=created.replication_factor,
        error_message=None,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=overrides.get(entry.name, entry.value),  # as it was sent
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in entries
        ],
    )


def refuse(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_error(name, error) for name in {topic.name: None for topic in request.topics}])


API = Api(request=CreateTopicsRequest, response=CreateTopicsResponse, handle=handle)

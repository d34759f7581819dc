"""CreateTopics: create each topic separately; a rejected topic does not affect the others."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from kwire.chunks import CHUNK, Pieces, chunks, in_turns, mapped, mapped_in_pieces, turn
from kwire.cluster.controller.plans.topics import CreatedTopic, NewTopic
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.repeats import repeated
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext

CONFIGS_SINCE = 5
STRICT_QUOTA_SINCE = 6


async def handle_create_topics(request: CreateTopicsRequest, context: ControllerContext) -> CreateTopicsResponse:
    results: dict[str, CreatableTopicResult] = {}
    accepted = []
    repeats = await in_turns(repeated(topic.name for topic in request.topics))
    for some in chunks(request.topics):
        for topic in some:
            if topic.name in repeats:
                results[topic.name] = _error(topic.name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            elif not (context.allows_cluster(is_requested=False) or context.allows_topic(topic.name)):
                results[topic.name] = _error(
                    topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
                )
            else:
                accepted.append(topic)
        if len(some) == CHUNK:
            await turn()
    services = context.services
    quota = services.quotas.mutations(context, strict_since=STRICT_QUOTA_SINCE)
    requested = await in_turns(mapped_in_pieces(accepted, _requested))
    outcomes = await services.controller.create_topics(
        requested, validate_only=request.validate_only, count=quota.record
    )
    await in_turns(_describe(zip(requested, outcomes, strict=True), results, context))
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=list(results.values()))


def _describe(
    outcomes: Iterable[tuple[NewTopic, CreatedTopic | KafkaError]],
    results: dict[str, CreatableTopicResult],
    context: ControllerContext,
) -> Generator[None, None, None]:
    """Describe each topic with all its configurations, which takes longer than to create it."""
    for new_topic, outcome in outcomes:
        yield
        if isinstance(outcome, KafkaError):
            results[new_topic.name] = _error(new_topic.name, outcome)
        else:
            results[new_topic.name] = _created(new_topic, outcome, context)


def _requested(topic: CreatableTopic) -> Pieces[NewTopic]:
    assignments = yield from mapped(topic.assignments, lambda each: (each.partition_index, each.broker_ids))
    configs = yield from mapped(topic.configs, lambda config: (config.name, config.value))
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs=dict(configs),
    )


def _error(name: str, error: KafkaError) -> CreatableTopicResult:
    message = error.message
    if message is None and error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        message = error.code.meaning
    return CreatableTopicResult(name=name, error_code=error.code, error_message=message, configs=[])


def _created(new_topic: NewTopic, created: CreatedTopic, context: ControllerContext) -> CreatableTopicResult:
    if context.version < CONFIGS_SINCE:
        return CreatableTopicResult(name=created.name, error_message=None)
    may_describe = context.allows_to(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, created.name, is_requested=False)
    if not may_describe:
        return CreatableTopicResult(
            name=created.name,
            topic_id=created.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    services = context.services
    overrides = {name: value for name, value in new_topic.configs.items() if value is not None}
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


def reject(request: CreateTopicsRequest, error: KafkaError) -> Pieces[CreateTopicsResponse]:
    names = yield from mapped(request.topics, lambda topic: topic.name)
    topics = yield from mapped(dict.fromkeys(names), lambda name: _error(name, error))
    return CreateTopicsResponse(topics=topics)


API = Api(request=CreateTopicsRequest, response=CreateTopicsResponse, handle=handle_create_topics)

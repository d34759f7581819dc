"""Common code of the share coordinator's APIs: one call for each partition of a request, and one result for each.

As in Kafka, these APIs do not check share.version: a broker without share groups sends none of these requests. They
require ClusterAction on the cluster. A request without a group id, without topics or with a topic without partitions
has an empty response.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from kwire.chunks import Pieces, chunks, is_in_pieces, mapped
from kwire.coordinator.answers import Answer, when_many_answered
from kwire.coordinator.share.keys import ShareKey
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.requests.context import RequestContext

T = TypeVar("T")
DataT = TypeVar("DataT", bound="PartitionData")
ResultT = TypeVar("ResultT")
TopicT = TypeVar("TopicT")
ResponseT = TypeVar("ResponseT")

CALLS_AT_ONCE: Final = 16
"""Calls between two steps of a request; each may append a batch, which takes 0.1 ms."""
BATCHES_OF_A_CALL: Final = 32
"""State batches that take as long as a call."""


class PartitionData(Protocol):
    partition: int


class TopicData(Protocol):
    topic_id: UUID
    partitions: Any


def answer_each(
    request: Any,
    context: RequestContext,
    *,
    call: Callable[[ShareKey, DataT], Answer[T] | Pieces[Answer[T]]],
    result: Callable[[int, T], ResultT],
    reject: Callable[[int, ErrorCode, str], ResultT],
    topic_result: Callable[[UUID, list[ResultT]], TopicT],
    response: Callable[[list[TopicT]], ResponseT],
    skips_empty_topics: bool = False,
) -> Pieces[Answer[ResponseT]]:
    """Call the coordinator for each partition of a request; return its response, also later.

    Every partition of a repeated entry is called, and the last one is answered, as in Kafka. A topic without partitions
    makes the response empty, or is skipped.
    """
    topics: Sequence[TopicData] = request.topics
    if not context.allows_cluster():
        call = _unauthorized
    else:
        has_partitions = yield from mapped(topics, _has_partitions)
        if not request.group_id or not (skips_empty_topics or all(has_partitions)):
            return response([])
    answers: dict[tuple[UUID, int], Answer[ResultT]] = {}
    count = 0
    for topic in topics:
        count += not topic.partitions
        for data in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            answer = yield from _answer(key, data, call, result, reject)
            answers[topic.topic_id, data.partition] = answer
            count += 1 + (_batch_count(data) + _batch_count(answer)) // BATCHES_OF_A_CALL
            if count >= CALLS_AT_ONCE:
                count = 0
                yield

    def finish(results: list[ResultT]) -> Pieces[ResponseT]:
        by_topic: dict[UUID, list[ResultT]] = {}
        for some in chunks(zip(answers, results, strict=True)):
            for (topic_id, _), each in some:
                by_topic.setdefault(topic_id, []).append(each)
            yield
        return response((yield from mapped(by_topic.items(), lambda each: topic_result(*each))))

    in_order: list[Answer[Any]] = yield from mapped(answers.values(), _itself)
    return (yield from when_many_answered(in_order, finish))


def _has_partitions(topic: TopicData) -> bool:
    return bool(topic.partitions)


def _itself(answer: Any) -> Any:
    return answer


def _batch_count(part: Any) -> int:
    """Return the number of state batches in a part of a request or a response."""
    return len(getattr(part, "state_batches", ()))


def _unauthorized(key: ShareKey, data: Any) -> Answer[Any]:
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _answer(
    key: ShareKey,
    data: DataT,
    call: Callable[[ShareKey, DataT], Answer[T] | Pieces[Answer[T]]],
    result: Callable[[int, T], ResultT],
    reject: Callable[[int, ErrorCode, str], ResultT],
) -> Pieces[Answer[ResultT]]:
    try:
        answer: Any = call(key, data)
        if is_in_pieces(answer):
            answer = yield from answer
    except KafkaError as error:
        return reject(key.partition, error.code, error.message or error.code.meaning)
    return _later(key, answer, result, reject) if inspect.isawaitable(answer) else result(key.partition, answer)


async def _later(
    key: ShareKey,
    answer: Awaitable[T],
    result: Callable[[int, T], ResultT],
    reject: Callable[[int, ErrorCode, str], ResultT],
) -> ResultT:
    try:
        return result(key.partition, await answer)
    except KafkaError as error:
        return reject(key.partition, error.code, error.message or error.code.meaning)

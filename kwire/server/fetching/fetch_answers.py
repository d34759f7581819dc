"""Fetch response: its construction, and its size as consumer_byte_rate counts it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kwire.chunks import Pieces
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.framing import pieces_framer
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from kwire.protocol.schema import schema_of
from kwire.server.fetching.session_watch import Key
from kwire.server.requests.context import RequestContext
from kwire.server.requests.current_leaders import MOVED, current_leader, node_endpoint

LEADERS_SINCE: Final = 16
"""First version that names the current leader with a leadership error (KIP-951)."""
ANSWERED_AT_ONCE: Final = 1024
"""Partitions of a response that are put together in one step."""
REJECTED_BEFORE_READING: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors before a read: as in Kafka, the list of aborted transactions is then empty;
after an attempted read it is null.
"""
_CORRELATION_ID_BYTES: Final = 4


def rejected(index: int, code: ErrorCode) -> FetchPartitionData:
    """Return the result of a partition that is not read."""
    return FetchPartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=[] if code in REJECTED_BEFORE_READING else None,
        records=b"",
    )


def unsupported_epoch_response(request: FetchRequest) -> FetchResponse:
    """Return the UNSUPPORTED_VERSION response for a session with an epoch that this older
    request version cannot contain.
    """
    code = ErrorCode.UNSUPPORTED_VERSION
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                FetchPartitionData(
                    partition_index=each.partition,
                    error_code=code,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return FetchResponse(error_code=code, session_id=request.session_id, responses=responses)


def name_leader(data: FetchPartitionData, key: Key, context: RequestContext) -> None:
    """Add the current leader of a partition, for the client to fetch from (KIP-951)."""
    topic, index = key
    name = context.services.image.topic_names.get(topic, "") if isinstance(topic, UUID) else topic
    leader = current_leader(name, index, context)
    if leader is not None:
        data.current_leader = FetchLeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)


def response_in_pieces(
    session_id: int, news: Sequence[tuple[Key, FetchPartitionData]], names_leaders: RequestContext | None
) -> Pieces[FetchResponse]:
    """Return the response, in the order of the request, which need not list the partitions of a topic together.

    `names_leaders` is the request's context if the response is to contain the addresses of the leaders that it names.
    """
    topics: list[FetchableTopicResponse] = []
    for start in range(0, len(news), ANSWERED_AT_ONCE):
        _add(topics, news[start : start + ANSWERED_AT_ONCE])
        yield
    return _answer(session_id, topics, news, names_leaders)


def response(
    session_id: int, news: Sequence[tuple[Key, FetchPartitionData]], names_leaders: RequestContext | None
) -> FetchResponse:
    """Return the response as `response_in_pieces` does, for at most ANSWERED_AT_ONCE partitions."""
    topics: list[FetchableTopicResponse] = []
    _add(topics, news)
    return _answer(session_id, topics, news, names_leaders)


def _add(topics: list[FetchableTopicResponse], news: Sequence[tuple[Key, FetchPartitionData]]) -> None:
    for (topic, _), data in news:
        last = topics[-1] if topics else None
        if last is None or topic != (last.topic_id if isinstance(topic, UUID) else last.topic):
            last = FetchableTopicResponse()
            topics.append(last)
            if isinstance(topic, UUID):
                last.topic_id = topic
            else:
                last.topic = topic
        last.partitions.append(data)


def _answer(
    session_id: int,
    topics: list[FetchableTopicResponse],
    news: Sequence[tuple[Key, FetchPartitionData]],
    names_leaders: RequestContext | None,
) -> FetchResponse:
    answer = FetchResponse(session_id=session_id, responses=topics)
    if names_leaders is not None:
        answer.node_endpoints = _endpoints(news, names_leaders)
    return answer


def _endpoints(news: Sequence[tuple[Key, FetchPartitionData]], context: RequestContext) -> list[FetchNodeEndpoint]:
    leaders = {data.current_leader.leader_id: None for _, data in news if data.error_code in MOVED}
    found = (node_endpoint(leader, context) for leader in leaders)
    return [
        FetchNodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in found
        if each is not None
    ]


def answer_bytes(answer: FetchResponse, version: int) -> Pieces[int]:
    """Return the size of a response as Kafka counts it: its body and the length field before it."""
    header_bytes = _CORRELATION_ID_BYTES + (version in schema_of(FetchResponse).flexible)
    buffers = yield from pieces_framer(FetchResponse, version)(0, answer)
    return sum(len(buffer) for buffer in buffers) - header_bytes

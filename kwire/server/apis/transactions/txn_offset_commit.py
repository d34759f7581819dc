"""TxnOffsetCommit: store offsets of a group that become effective when a transaction commits (KIP-98, KIP-447)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from kwire.chunks import in_turns, slices, turn, whole
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.answers import Answer, when_answered
from kwire.coordinator.errors import coordinator_error
from kwire.coordinator.group.rejected_commits import rejected_transactional_commit
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.verifier import TransactionClaim, UnverifiedBatch
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from kwire.protocol.records import NO_SEQUENCE
from kwire.server.apis.groups.commit_answers import joined, merged, split
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

LOADING_SINCE = 2
"""First version whose clients retry after COORDINATOR_LOAD_IN_PROGRESS."""
ABORTABLE_SINCE = 4
ADDS_SINCE = 5
COMMITTED_AT_ONCE = 256
"""Partitions that are committed in one step of the event loop."""

Topics = list[TxnOffsetCommitResponseTopic]


def handle_txn_offset_commit(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> Answer[TxnOffsetCommitResponse]:
    if sum([len(topic.partitions) or 1 for topic in request.topics]) > COMMITTED_AT_ONCE:
        return _in_slices(request, context)
    answer = _commit(request, request.topics, context)
    return when_answered(answer, lambda topics: TxnOffsetCommitResponse(topics=topics))


async def _in_slices(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """Commit each slice separately, each started in a turn of its own: the response has a code for each partition."""
    begun = []
    for some in slices(request.topics, lambda topic: topic.partitions, _part, COMMITTED_AT_ONCE):
        begun.append(asyncio.ensure_future(whole(_commit(request, some, context))))
        await turn()
    topics = await in_turns(joined([await each for each in begun]))
    return TxnOffsetCommitResponse(topics=topics)


def _part(topic: TxnOffsetCommitRequestTopic, partitions: Sequence[Any]) -> TxnOffsetCommitRequestTopic:
    return TxnOffsetCommitRequestTopic(name=topic.name, partitions=list(partitions))


def _commit(
    request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic], context: RequestContext
) -> Answer[Topics]:
    code = _rejection(request, context)
    if code is not ErrorCode.NONE:
        return rejected_transactional_commit(topics, code)
    accepted, rejected = _sorted(topics, context)
    if not accepted:
        return rejected
    return _commit_accepted(request, accepted, rejected, context)


async def _commit_accepted(
    request: TxnOffsetCommitRequest,
    accepted: list[TxnOffsetCommitRequestTopic],
    rejected: Topics,
    context: RequestContext,
) -> Topics:
    try:
        answer = _verify_and_commit(request, accepted, context)
        while inspect.isawaitable(answer):  # for verification, and then perhaps for durability
            answer = await answer
        committed = answer
    except KafkaError as error:
        answer = rejected  # a future references the error, whose traceback references this frame
        code = coordinator_error(error).code
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.version < LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        committed = rejected_transactional_commit(accepted, code)
    return merged(rejected, committed)


def _verify_and_commit(
    request: TxnOffsetCommitRequest, accepted: list[TxnOffsetCommitRequestTopic], context: RequestContext
) -> Answer[Answer[Topics]]:
    """Commit once the group's partition is verified to be in the transaction. Raises KafkaError."""
    services = context.services
    partition = services.groups.offsets_partition(request.group_id)
    producer = Producer(request.producer_id, request.producer_epoch)
    adds = context.version >= ADDS_SINCE
    partition.log.producers.check_epoch(*producer)
    if services.transaction_verifier.can_write(partition, producer, adds=adds):
        return services.groups.commit_offsets_in_transaction(request, accepted)
    verified: asyncio.Future[Answer[Topics]] = asyncio.get_running_loop().create_future()

    def settle(error: KafkaError | None) -> KafkaError | None:
        if verified.done():  # the client has disconnected
            return error
        if error is None:
            # Commit in this call: if the marker were appended first, the offsets would stay pending forever.
            verified.set_result(services.groups.commit_offsets_in_transaction(request, accepted))
        else:
            verified.set_exception(error)
        return error

    claim = TransactionClaim(
        transactional_id=request.transactional_id, adds=adds, supports_abortable=context.version >= ABORTABLE_SINCE
    )
    services.transaction_verifier.verify(claim, [UnverifiedBatch(partition, producer, NO_SEQUENCE, settle)])
    return verified


def _rejection(request: TxnOffsetCommitRequest, context: RequestContext) -> ErrorCode:
    if not context.allows(ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not context.allows_group(request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _sorted(
    topics: Iterable[TxnOffsetCommitRequestTopic], context: RequestContext
) -> tuple[list[TxnOffsetCommitRequestTopic], Topics]:
    """Return (topics with their existing partitions, error results)."""
    accepted: list[TxnOffsetCommitRequestTopic] = []
    rejected: Topics = []
    for topic in topics:
        if not context.allows_topic(topic.name):
            rejected += rejected_transactional_commit([topic], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        known, unknown = split(topic.partitions, context.services.image.topics.get(topic.name))
        if unknown or not known:
            rest = TxnOffsetCommitRequestTopic(name=topic.name, partitions=unknown)
            rejected += rejected_transactional_commit([rest], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if known:
            accepted.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=known))
    return accepted, rejected


API = Api(request=TxnOffsetCommitRequest, response=TxnOffsetCommitResponse, handle=handle_txn_offset_commit)

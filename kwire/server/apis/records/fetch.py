"""Fetch: read record batches from partitions led by this broker, waiting for min_bytes up to max_wait_ms.

The handler finds what the request or its session fetches, and answers at once or by a delayed fetch. The package
kwire.server.fetching contains the sessions, the authorization of each partition, the reading and the wait.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.chunks import Pieces, at_once
from kwire.cluster.partitions.partition import READ_COMMITTED, READ_UNCOMMITTED
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.server.fetching.delayed_fetch import DelayedFetch
from kwire.server.fetching.fetch import TOPIC_IDS_SINCE, Fetch
from kwire.server.fetching.fetch_plan import FetchPlan, names_many
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_fetch(
    request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse] | Pieces[FetchResponse | Awaitable[FetchResponse]]:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    planning = context.services.fetch_sessions.plan(
        request,
        uses_topic_ids=context.version >= TOPIC_IDS_SINCE,
        topic_names=context.services.image.topic_names,
        may_follow=max(request.replica_id, request.replica_state.replica_id) < 0 or context.allows_cluster(),
    )
    if names_many(request):
        return _answer_in_pieces(planning, request, context)
    try:
        plan = at_once(planning)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return _answer(Fetch(request, context, plan), plan)


def _answer_in_pieces(
    planning: Pieces[FetchPlan], request: FetchRequest, context: RequestContext
) -> Pieces[FetchResponse | Awaitable[FetchResponse]]:
    try:
        plan = yield from planning
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return _answer(Fetch(request, context, plan), plan)


def _answer(fetch: Fetch, plan: FetchPlan) -> FetchResponse | Awaitable[FetchResponse]:
    answers = [] if fetch.is_large else fetch.read()
    if fetch.is_large or fetch.has_to_wait:
        delayed = DelayedFetch(fetch)
        delayed.read_in_pieces()
        return delayed.future
    if fetch.need_not_wait or plan.is_empty:
        return fetch.conclude(answers)
    delayed = DelayedFetch(fetch)
    delayed.wait()
    return delayed.future


API = Api(
    request=FetchRequest,
    response=FetchResponse,
    handle=handle_fetch,
    elements_of=lambda response: sum(len(topic.partitions) for topic in response.responses),
)

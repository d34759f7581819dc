"""ReadShareGroupStateSummary: return the state of share partitions without their batches, for the lag of a group."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.state import ShareSummary
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionData,
    ReadShareGroupStateSummaryPartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kwire.server.apis.sharing_state.each_partition import answer_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Result = ReadShareGroupStateSummaryPartitionResult


def handle_read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> Pieces[Answer[ReadShareGroupStateSummaryResponse]]:
    def call(key: ShareKey, data: ReadShareGroupStateSummaryPartitionData) -> Answer[ShareSummary]:
        return context.services.share_states.read_summary(key)

    return answer_each(
        request,
        context,
        call=call,
        result=_result,
        reject=_rejected,
        topic_result=_topic_result,
        response=_response,
    )


def _result(partition: int, summary: ShareSummary) -> Result:
    return Result(
        partition=partition,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )


def _rejected(partition: int, code: ErrorCode, message: str) -> Result:
    return Result(partition=partition, error_code=code, error_message=message)


def _topic_result(topic_id: UUID, results: list[Result]) -> ReadStateSummaryResult:
    return ReadStateSummaryResult(topic_id=topic_id, partitions=results)


def _response(results: list[ReadStateSummaryResult]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(results=results)


API = Api(
    request=ReadShareGroupStateSummaryRequest,
    response=ReadShareGroupStateSummaryResponse,
    handle=handle_read_share_group_state_summary,
)

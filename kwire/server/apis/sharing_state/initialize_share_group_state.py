"""InitializeShareGroupState: store the initial state of share partitions, in place of an earlier one."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.keys import ShareKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStatePartitionData,
    InitializeShareGroupStatePartitionResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)
from kwire.server.apis.sharing_state.each_partition import answer_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Result = InitializeShareGroupStatePartitionResult


def handle_initialize_share_group_state(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> Pieces[Answer[InitializeShareGroupStateResponse]]:
    def call(key: ShareKey, data: InitializeShareGroupStatePartitionData) -> Answer[None]:
        return context.services.share_states.initialise(
            key, state_epoch=data.state_epoch, start_offset=data.start_offset
        )

    return answer_each(
        request,
        context,
        call=call,
        result=_result,
        reject=_rejected,
        topic_result=_topic_result,
        response=_response,
        skips_empty_topics=True,
    )


def _result(partition: int, answer: None) -> Result:
    return Result(partition=partition)


def _rejected(partition: int, code: ErrorCode, message: str) -> Result:
    return Result(partition=partition, error_code=code, error_message=message)


def _topic_result(topic_id: UUID, results: list[Result]) -> InitializeStateResult:
    return InitializeStateResult(topic_id=topic_id, partitions=results)


def _response(results: list[InitializeStateResult]) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(results=results)


API = Api(
    request=InitializeShareGroupStateRequest,
    response=InitializeShareGroupStateResponse,
    handle=handle_initialize_share_group_state,
)

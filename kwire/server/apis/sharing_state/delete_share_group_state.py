"""DeleteShareGroupState: delete the state of share partitions; one without a state is no error."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.keys import ShareKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStatePartitionData,
    DeleteShareGroupStatePartitionResult,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)
from kwire.server.apis.sharing_state.each_partition import answer_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Result = DeleteShareGroupStatePartitionResult


def handle_delete_share_group_state(
    request: DeleteShareGroupStateRequest, context: RequestContext
) -> Pieces[Answer[DeleteShareGroupStateResponse]]:
    def call(key: ShareKey, data: DeleteShareGroupStatePartitionData) -> Answer[None]:
        return context.services.share_states.delete(key)

    return answer_each(
        request,
        context,
        call=call,
        result=_result,
        reject=_rejected,
        topic_result=_topic_result,
        response=_response,
    )


def _result(partition: int, answer: None) -> Result:
    return Result(partition=partition)


def _rejected(partition: int, code: ErrorCode, message: str) -> Result:
    return Result(partition=partition, error_code=code, error_message=message)


def _topic_result(topic_id: UUID, results: list[Result]) -> DeleteStateResult:
    return DeleteStateResult(topic_id=topic_id, partitions=results)


def _response(results: list[DeleteStateResult]) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(results=results)


API = Api(
    request=DeleteShareGroupStateRequest,
    response=DeleteShareGroupStateResponse,
    handle=handle_delete_share_group_state,
)

"""ReadShareGroupState: return the state of share partitions to their leader, which becomes the one that may write."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.state import ShareState
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.read_share_group_state import (
    ReadShareGroupStateBatch,
    ReadShareGroupStatePartitionData,
    ReadShareGroupStatePartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from kwire.server.apis.sharing_state.each_partition import answer_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Result = ReadShareGroupStatePartitionResult


def handle_read_share_group_state(
    request: ReadShareGroupStateRequest, context: RequestContext
) -> Pieces[Answer[ReadShareGroupStateResponse]]:
    def call(key: ShareKey, data: ReadShareGroupStatePartitionData) -> Answer[ShareState]:
        return context.services.share_states.read(key, leader_epoch=data.leader_epoch)

    return answer_each(
        request,
        context,
        call=call,
        result=_result,
        reject=_rejected,
        topic_result=_topic_result,
        response=_response,
    )


def _result(partition: int, state: ShareState) -> Result:
    return Result(
        partition=partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            ReadShareGroupStateBatch(
                first_offset=first, last_offset=last, delivery_state=delivery, delivery_count=count
            )
            for first, last, delivery, count in state.batches
        ],
    )


def _rejected(partition: int, code: ErrorCode, message: str) -> Result:
    return Result(partition=partition, error_code=code, error_message=message)


def _topic_result(topic_id: UUID, results: list[Result]) -> ReadStateResult:
    return ReadStateResult(topic_id=topic_id, partitions=results)


def _response(results: list[ReadStateResult]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(results=results)


API = Api(
    request=ReadShareGroupStateRequest,
    response=ReadShareGroupStateResponse,
    handle=handle_read_share_group_state,
    elements_of=lambda response: sum(
        1 + len(partition.state_batches) for topic in response.results for partition in topic.partitions
    ),
)

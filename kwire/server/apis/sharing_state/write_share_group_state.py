"""WriteShareGroupState: store the changes of share partitions' states, which their leaders send."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import Pieces, mapped
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.batches import StateBatch
from kwire.coordinator.share.keys import ShareKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.write_share_group_state import (
    WriteShareGroupStateBatch,
    WriteShareGroupStatePartitionData,
    WriteShareGroupStatePartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kwire.server.apis.sharing_state.each_partition import answer_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Result = WriteShareGroupStatePartitionResult


def handle_write_share_group_state(
    request: WriteShareGroupStateRequest, context: RequestContext
) -> Pieces[Answer[WriteShareGroupStateResponse]]:
    def call(key: ShareKey, data: WriteShareGroupStatePartitionData) -> Pieces[Answer[None]]:
        batches = yield from mapped(data.state_batches, _batch)
        return context.services.share_states.write(
            key,
            state_epoch=data.state_epoch,
            leader_epoch=data.leader_epoch,
            start_offset=data.start_offset,
            delivery_complete_count=data.delivery_complete_count,
            batches=batches,
        )

    return answer_each(
        request,
        context,
        call=call,
        result=_result,
        reject=_rejected,
        topic_result=_topic_result,
        response=_response,
    )


def _batch(batch: WriteShareGroupStateBatch) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


def _result(partition: int, answer: None) -> Result:
    return Result(partition=partition)


def _rejected(partition: int, code: ErrorCode, message: str) -> Result:
    return Result(partition=partition, error_code=code, error_message=message)


def _topic_result(topic_id: UUID, results: list[Result]) -> WriteStateResult:
    return WriteStateResult(topic_id=topic_id, partitions=results)


def _response(results: list[WriteStateResult]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(results=results)


API = Api(
    request=WriteShareGroupStateRequest, response=WriteShareGroupStateResponse, handle=handle_write_share_group_state
)

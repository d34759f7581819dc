"""DeleteShareGroupState: remove the state of partitions from a share coordinator (KIP-932)."""

from kwire.protocol.primitives import int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class DeleteShareGroupStatePartitionData:
    partition: int32 = field("0+")


@struct
class DeleteStateData:
    topic_id: uuid = field("0+")
    partitions: list[DeleteShareGroupStatePartitionData] = field("0+")


@message(key=86, kind="request", versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: string = field("0+")
    topics: list[DeleteStateData] = field("0+")


@struct
class DeleteShareGroupStatePartitionResult:
    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@struct
class DeleteStateResult:
    topic_id: uuid = field("0+")
    partitions: list[DeleteShareGroupStatePartitionResult] = field("0+")


@message(key=86, kind="response", versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field("0+")

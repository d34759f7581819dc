"""InitializeShareGroupState: create the state of partitions at a share coordinator (KIP-932)."""

from kwire.protocol.primitives import int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class InitializeShareGroupStatePartitionData:
    partition: int32 = field("0+")
    state_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 if unknown yet."""


@struct
class InitializeStateData:
    topic_id: uuid = field("0+")
    partitions: list[InitializeShareGroupStatePartitionData] = field("0+")


@message(key=83, kind="request", versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: string = field("0+")
    topics: list[InitializeStateData] = field("0+")


@struct
class InitializeShareGroupStatePartitionResult:
    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@struct
class InitializeStateResult:
    topic_id: uuid = field("0+")
    partitions: list[InitializeShareGroupStatePartitionResult] = field("0+")


@message(key=83, kind="response", versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field("0+")

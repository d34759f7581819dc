"""ReadShareGroupState: a share group's state, which a partition's leader reads from the coordinator (KIP-932)."""

from kwire.protocol.primitives import int8, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class ReadShareGroupStatePartitionData:
    partition: int32 = field("0+")
    leader_epoch: int32 = field("0+")


@struct
class ReadStateData:
    topic_id: uuid = field("0+")
    partitions: list[ReadShareGroupStatePartitionData] = field("0+")


@message(key=84, kind="request", versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: string = field("0+")
    topics: list[ReadStateData] = field("0+")


@struct
class ReadShareGroupStateBatch:
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    """Inclusive."""
    delivery_state: int8 = field("0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int16 = field("0+")


@struct
class ReadShareGroupStatePartitionResult:
    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    state_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 if unknown yet."""
    state_batches: list[ReadShareGroupStateBatch] = field("0+")


@struct
class ReadStateResult:
    topic_id: uuid = field("0+")
    partitions: list[ReadShareGroupStatePartitionResult] = field("0+")


@message(key=84, kind="response", versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field("0+")

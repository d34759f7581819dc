"""WriteShareGroupState: store the changes of a share group's state, sent by a partition's leader (KIP-932).

1  number of completed offsets after the start (KIP-1226)
"""

from kwire.protocol.primitives import int8, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class WriteShareGroupStateBatch:
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    """Inclusive."""
    delivery_state: int8 = field("0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int16 = field("0+")


@struct
class WriteShareGroupStatePartitionData:
    partition: int32 = field("0+")
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 if unchanged."""
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    """Offsets from the start offset on that are acknowledged or archived; -1 if unknown."""
    state_batches: list[WriteShareGroupStateBatch] = field("0+")


@struct
class WriteStateData:
    topic_id: uuid = field("0+")
    partitions: list[WriteShareGroupStatePartitionData] = field("0+")


@message(key=85, kind="request", versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    group_id: string = field("0+")
    topics: list[WriteStateData] = field("0+")


@struct
class WriteShareGroupStatePartitionResult:
    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@struct
class WriteStateResult:
    topic_id: uuid = field("0+")
    partitions: list[WriteShareGroupStatePartitionResult] = field("0+")


@message(key=85, kind="response", versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field("0+")

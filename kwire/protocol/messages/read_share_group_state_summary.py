"""ReadShareGroupStateSummary: the state of share groups' partitions without their batches (KIP-932).

1  number of completed offsets after the start (KIP-1226)
"""

from kwire.protocol.primitives import int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class ReadShareGroupStateSummaryPartitionData:
    partition: int32 = field("0+")
    leader_epoch: int32 = field("0+")


@struct
class ReadStateSummaryData:
    topic_id: uuid = field("0+")
    partitions: list[ReadShareGroupStateSummaryPartitionData] = field("0+")


@message(key=87, kind="request", versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    group_id: string = field("0+")
    topics: list[ReadStateSummaryData] = field("0+")


@struct
class ReadShareGroupStateSummaryPartitionResult:
    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 if unknown yet."""
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    """Offsets from the start offset on that are acknowledged or archived; -1 if unknown."""


@struct
class ReadStateSummaryResult:
    topic_id: uuid = field("0+")
    partitions: list[ReadShareGroupStateSummaryPartitionResult] = field("0+")


@message(key=87, kind="response", versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field("0+")

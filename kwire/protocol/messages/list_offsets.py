"""ListOffsets: the first offset at or after a timestamp, or a special offset of a log.

1  one offset, with its timestamp
2  isolation level (KIP-98), throttle time
4  leader epochs (KIP-320)
5  OFFSET_NOT_AVAILABLE may be returned (KIP-207)
6  flexible
7  timestamp -3: the record with the largest timestamp (KIP-734)
8  timestamp -4: the start of the local log (KIP-405)
9  timestamp -5: the end of the remote log (KIP-1005)
10  timeout for remote lookups (KIP-1075)
11  timestamp -6: the first offset that waits for its upload (KIP-1023)
"""

from typing import Final

from kwire.protocol.primitives import BrokerId, TopicName, int8, int16, int32, int64
from kwire.protocol.schema import field, message, struct

CONSUMER: Final = -1
DEBUGGER: Final = -2
"""Replica ids of consumers and of debugging clients, which may also query followers for their log end offsets."""
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
"""Timestamps that stand for special offsets of a log."""


@struct
class ListOffsetsPartition:
    partition_index: int32 = field("0+")
    current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
    timestamp: int64 = field("0+")


@struct
class ListOffsetsTopic:
    name: TopicName = field("0+")
    partitions: list[ListOffsetsPartition] = field("0+")


@message(key=2, kind="request", versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: BrokerId = field("0+")
    isolation_level: int8 = field("2+")
    topics: list[ListOffsetsTopic] = field("0+")
    timeout_ms: int32 = field("10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: TopicName = field("0+")
    partitions: list[ListOffsetsPartitionResponse] = field("0+")


@message(key=2, kind="response", versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field("0+")

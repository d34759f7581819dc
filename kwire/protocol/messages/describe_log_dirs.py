"""DescribeLogDirs: the log directories of a broker, and the size of each replica in them (KIP-113).

2  flexible
3  error code for the whole response
4  size and usable space of the volume (KIP-827)
5  cordoned directories (KIP-1066)
"""

from kwire.protocol.primitives import TopicName, boolean, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@struct
class DescribableLogDirTopic:
    topic: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@message(key=35, kind="request", versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field("0+", nullable="0+")


@struct
class DescribeLogDirsPartition:
    partition_index: int32 = field("0+")
    partition_size: int64 = field("0+")
    offset_lag: int64 = field("0+")
    is_future_key: boolean = field("0+")


@struct
class DescribeLogDirsTopic:
    name: TopicName = field("0+")
    partitions: list[DescribeLogDirsPartition] = field("0+")


@struct
class DescribeLogDirsResult:
    error_code: int16 = field("0+")
    log_dir: string = field("0+")
    topics: list[DescribeLogDirsTopic] = field("0+")
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: boolean = field("5+", ignorable=True)


@message(key=35, kind="response", versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field("0+")

"""AlterReplicaLogDirs: move replicas between the log directories of one broker (KIP-113).

2  flexible
"""

from kwire.protocol.primitives import TopicName, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@struct
class AlterReplicaLogDir:
    path: string = field("0+")
    """Absolute path."""
    topics: list[AlterReplicaLogDirTopic] = field("0+")


@message(key=34, kind="request", versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field("0+")


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: TopicName = field("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = field("0+")


@message(key=34, kind="response", versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int32 = field("0+")
    results: list[AlterReplicaLogDirTopicResult] = field("0+")

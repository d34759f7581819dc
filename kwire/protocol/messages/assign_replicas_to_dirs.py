"""AssignReplicasToDirs: report the log directories of a broker's replicas to the controller (KIP-858)."""

from kwire.protocol.primitives import BrokerId, int16, int32, int64, uuid
from kwire.protocol.schema import field, message, struct


@struct
class AssignReplicasToDirsRequestPartitionData:
    partition_index: int32 = field("0+")


@struct
class AssignReplicasToDirsRequestTopicData:
    topic_id: uuid = field("0+")
    partitions: list[AssignReplicasToDirsRequestPartitionData] = field("0+")


@struct
class AssignReplicasToDirsRequestDirectoryData:
    id: uuid = field("0+")
    topics: list[AssignReplicasToDirsRequestTopicData] = field("0+")


@message(key=73, kind="request", versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = field("0+")


@struct
class AssignReplicasToDirsResponsePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


@struct
class AssignReplicasToDirsResponseTopicData:
    topic_id: uuid = field("0+")
    partitions: list[AssignReplicasToDirsResponsePartitionData] = field("0+")


@struct
class AssignReplicasToDirsResponseDirectoryData:
    id: uuid = field("0+")
    topics: list[AssignReplicasToDirsResponseTopicData] = field("0+")


@message(key=73, kind="response", versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    directories: list[AssignReplicasToDirsResponseDirectoryData] = field("0+")

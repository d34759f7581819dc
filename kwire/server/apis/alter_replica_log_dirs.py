"""AlterReplicaLogDirs: move replicas between the log directories of this broker (KIP-113).

A replica that is in the wanted directory already is done with; moving one to another directory is not served.
"""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

FILE_NAME_LENGTH_MAX = 255
FUTURE_DIRECTORY_SUFFIX_LENGTH = len("." + "0" * 32 + "-future")
"""While a replica moves, its new directory has a name of its own; a topic's that leaves no room for it cannot move."""


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    is_allowed = context.allows_cluster()
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, index), path in wanted.items():
        code = _code(topic, index, path, context) if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic))
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _code(topic: str, index: int, path: str, context: RequestContext) -> ErrorCode:
    services = context.services
    if len(f"{topic}-{index}") + FUTURE_DIRECTORY_SUFFIX_LENGTH > FILE_NAME_LENGTH_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path not in services.config.log_dirs:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        partition = services.partitions.find(topic, index)
    except KafkaError as error:
        return error.code
    if partition.log.directory.rpartition("/")[0] != path:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


API = Api(request=AlterReplicaLogDirsRequest, response=AlterReplicaLogDirsResponse, handle=handle)

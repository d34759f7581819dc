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

"""AlterReplicaLogDirs: move replicas between the log directories of this broker (KIP-113).

The response says that a replica has begun to move; DescribeLogDirs reports the progress.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.chunks import Pieces, chunks
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

FILE_NAME_LENGTH_MAX = 255
FUTURE_DIRECTORY_SUFFIX_LENGTH = len("." + "0" * 32 + "-future")
"""Length of the suffix of a moving replica's new directory; a topic whose name leaves no room for it cannot move."""


def handle_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> Pieces[AlterReplicaLogDirsResponse]:
    is_allowed = context.allows_cluster()
    paths: dict[tuple[str, int], str] = {}
    for some in chunks(_requested(request)):
        paths.update(some)
        yield
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for others in chunks(paths.items()):
        for (topic, index), path in others:
            code = _code(topic, index, path, context) if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic))
            result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
        yield
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _requested(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield ((topic, partition), path of the new log directory) of each partition; the last entry counts."""
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield (topic.name, index), directory.path


def _code(topic: str, index: int, path: str, context: RequestContext) -> ErrorCode:
    if len(f"{topic}-{index}") + FUTURE_DIRECTORY_SUFFIX_LENGTH > FILE_NAME_LENGTH_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    try:
        context.services.moves.move(topic, index, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


API = Api(
    request=AlterReplicaLogDirsRequest, response=AlterReplicaLogDirsResponse, handle=handle_alter_replica_log_dirs
)

"""DescribeLogDirs: where the replicas of this broker are and how large they are (KIP-113)."""

from __future__ import annotations

from kwire.cluster.partition import Partition
from kwire.log.log_directory import LogDirectory
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    if not context.allows_cluster():
        return DescribeLogDirsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED if context.version >= 3 else ErrorCode.NONE
        )
    wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    partitions = [
        partition
        for partition in context.services.partitions
        if wanted is None or partition.index in wanted.get(partition.topic, ())
    ]
    return DescribeLogDirsResponse(
        results=[_directory(directory, partitions, context) for directory in context.services.logs.directories]
    )


def _directory(directory: LogDirectory, partitions: list[Partition], context: RequestContext) -> DescribeLogDirsResult:
    if directory.is_offline:
        return DescribeLogDirsResult(log_dir=directory.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        if directory.logs.get((partition.topic, partition.index)) is partition.log:
            topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
            size = partition.log.size_in_bytes
            topic.partitions.append(DescribeLogDirsPartition(partition_index=partition.index, partition_size=size))
    total, usable = context.services.disk.space(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable
    )


API = Api(request=DescribeLogDirsRequest, response=DescribeLogDirsResponse, handle=handle)

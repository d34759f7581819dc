"""DescribeLogDirs: return the log directories of this broker with their replicas and sizes (KIP-113)."""

from __future__ import annotations

import logging
from collections.abc import Generator

from kwire.chunks import chunks
from kwire.cluster.partitions.partition import Partition
from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectory
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kwire.server.replication.readable import readable
from kwire.server.replication.reported_directories import has_cordoned_directories
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

logger = logging.getLogger(__name__)


def handle_describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext
) -> Generator[None, None, DescribeLogDirsResponse]:
    if not context.allows_cluster():
        return DescribeLogDirsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED if context.version >= 3 else ErrorCode.NONE
        )
    requested = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    partitions: list[Partition] = []
    for chunk in chunks(list(context.services.partitions)):
        yield
        partitions += [each for each in chunk if requested is None or each.index in requested.get(each.topic, ())]
    response = DescribeLogDirsResponse()
    for directory in context.services.logs.directories:
        response.results.append((yield from _directory(directory, partitions, context)))
    return response


def _directory(
    directory: LogDirectory, partitions: list[Partition], context: RequestContext
) -> Generator[None, None, DescribeLogDirsResult]:
    if directory.is_offline:
        return _failed(directory)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for chunk in chunks(partitions):
        yield
        for partition in chunk:
            key = (partition.topic, partition.index)
            log, future = directory.logs.get(key), directory.futures.get(key)
            if log is partition.log or future is not None:
                topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
                topic.partitions.append(_partition(partition, future))
    try:
        total, usable = context.services.disk.space(directory.path)
    except DiskFailure as failure:  # the next write there takes the directory offline
        logger.warning("Cannot describe the log directory %s: %s", directory.path, failure)
        return _failed(directory)
    return DescribeLogDirsResult(
        log_dir=readable(directory.path),
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=directory.is_cordoned and has_cordoned_directories(context.services.metadata_log.image),
    )


def _failed(directory: LogDirectory) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(log_dir=readable(directory.path), error_code=ErrorCode.KAFKA_STORAGE_ERROR)


def _partition(partition: Partition, future: PartitionLog | None) -> DescribeLogDirsPartition:
    """Return the size of the replica, or of its future log in the directory that it moves to."""
    shown = future or partition.log
    return DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=shown.size_in_bytes,
        offset_lag=partition.log.log_end_offset - shown.log_end_offset,
        is_future_key=future is not None,
    )


API = Api(request=DescribeLogDirsRequest, response=DescribeLogDirsResponse, handle=handle_describe_log_dirs)

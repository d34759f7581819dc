"""Answers of offset commits that are rejected as a whole: the APIs have a code for each partition only."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def rejected_transactional_commit(
    topics: Iterable[TxnOffsetCommitRequestTopic], code: ErrorCode
) -> list[TxnOffsetCommitResponseTopic]:
    """Return a response with the error code for each partition."""
    return [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def rejected_commit(topics: Iterable[OffsetCommitRequestTopic], code: ErrorCode) -> list[OffsetCommitResponseTopic]:
    """Return a response with the code for each partition, since OffsetCommit has no error field for the request."""
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]

"""TxnOffsetCommit: commit a group's offsets as part of a transaction (KIP-98).

2  leader epoch (KIP-320)
3  flexible; generation, member and instance are checked as in OffsetCommit (KIP-447)
4  TRANSACTION_ABORTABLE may be returned (KIP-890)
5  the commit itself adds the group to the transaction: transactions v2 (KIP-890)
"""

from kwire.protocol.primitives import GroupId, ProducerId, TopicName, TransactionalId, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int32 = field("0+")
    committed_offset: int64 = field("0+")
    committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: string | None = field("0+", nullable="0+")


@struct
class TxnOffsetCommitRequestTopic:
    name: TopicName = field("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = field("0+")


@message(key=28, kind="request", versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    transactional_id: TransactionalId = field("0+")
    group_id: GroupId = field("0+")
    producer_id: ProducerId = field("0+")
    producer_epoch: int16 = field("0+")
    generation_id: int32 = field("3+", default=-1)
    member_id: string = field("3+")
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field("0+")


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


@struct
class TxnOffsetCommitResponseTopic:
    name: TopicName = field("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = field("0+")


@message(key=28, kind="response", versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: int32 = field("0+")
    topics: list[TxnOffsetCommitResponseTopic] = field("0+")

"""Produce: append record batches to partitions. With acks=0 there is no response.

Versions 0-2 carried message formats that Kafka 4 dropped; ApiVersions still lists them for librdkafka's sake.

    3  record batches (KIP-98), transactional id
    4  KAFKA_STORAGE_ERROR may be returned (KIP-112)
    5  log start offset in the response
    7  zstd (KIP-110)
    8  errors of single records, error message (KIP-467)
    9  flexible
    10  the current leader is returned with NOT_LEADER_OR_FOLLOWER (KIP-951)
    11  TRANSACTION_ABORTABLE may be returned (KIP-890)
    12  the request itself adds the partitions to the transaction: transactions v2 (KIP-890)
    13  topic ids replace names (KIP-516)
"""

from kwire.protocol.primitives import BrokerId, Records, TopicName, TransactionalId, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@struct
class PartitionProduceData:
    index: int32 = field("0+")
    records: Records | None = field("0+", nullable="0+")


@struct
class TopicProduceData:
    name: TopicName = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field("0+")


@message(key=0, kind="request", versions="3-13", flexible="9+")
class ProduceRequest:
    transactional_id: TransactionalId | None = field("3+", nullable="3+", default=None)
    acks: int16 = field("0+")
    timeout_ms: int32 = field("0+")
    topic_data: list[TopicProduceData] = field("0+")


@struct
class BatchIndexAndErrorMessage:
    batch_index: int32 = field("8+")
    batch_index_error_message: string | None = field("8+", nullable="8+", default=None)


@frozen_struct
class ProduceLeaderIdAndEpoch:
    leader_id: BrokerId = field("10+", default=-1)
    leader_epoch: int32 = field("10+", default=-1)


@struct
class PartitionProduceResponse:
    index: int32 = field("0+")
    error_code: int16 = field("0+")
    base_offset: int64 = field("0+")
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", ignorable=True)
    error_message: string | None = field("8+", nullable="8+", default=None, ignorable=True)
    current_leader: ProduceLeaderIdAndEpoch = field("10+", tag=0, tagged="10+")


@struct
class TopicProduceResponse:
    name: TopicName = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field("0+")


@struct
class ProduceNodeEndpoint:
    node_id: BrokerId = field("10+")
    host: string = field("10+")
    port: int32 = field("10+")
    rack: string | None = field("10+", nullable="10+", default=None)


@message(key=0, kind="response", versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    node_endpoints: list[ProduceNodeEndpoint] = field("10+", tag=0, tagged="10+")

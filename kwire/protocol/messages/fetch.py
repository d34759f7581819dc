"""Fetch: read record batches from partitions, by consumers and by following replicas.

4  record batches and isolation level (KIP-98)
5  log start offset
6  KAFKA_STORAGE_ERROR may be returned (KIP-112)
7  fetch sessions: only what changed is named (KIP-227)
9  current leader epoch (KIP-320)
10  zstd (KIP-110)
11  rack of the consumer, preferred read replica (KIP-392)
12  flexible; last fetched epoch and diverging epoch in place of a truncation request (KIP-595)
13  topic ids replace names (KIP-516)
14  OFFSET_MOVED_TO_TIERED_STORAGE may be returned (KIP-405)
15  a follower's id and epoch in one struct (KIP-903)
16  endpoints of new leaders (KIP-951)
17  directory id of a follower (KIP-853)
18  the follower's high watermark (KIP-1166)
"""

from kwire.protocol.primitives import BrokerId, ProducerId, Records, TopicName, int8, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@frozen_struct
class FetchReplicaState:
    replica_id: BrokerId = field("15+", default=-1)
    replica_epoch: int64 = field("15+", default=-1)


@struct
class FetchPartition:
    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: int64 = field("0+")
    last_fetched_epoch: int32 = field("12+", default=-1)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: int32 = field("0+")
    replica_directory_id: uuid = field("17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: int64 = field("18+", tag=1, tagged="18+", default=0x7FFFFFFFFFFFFFFF, ignorable=True)


@struct
class FetchTopic:
    topic: TopicName = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[FetchPartition] = field("0+")


@struct
class FetchForgottenTopic:
    topic: TopicName = field("7-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[int32] = field("7+")


@message(key=1, kind="request", versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: string | None = field("12+", nullable="12+", tag=0, tagged="12+", default=None, ignorable=True)
    replica_id: BrokerId = field("0-14", default=-1)
    replica_state: FetchReplicaState = field("15+", tag=1, tagged="15+")
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int8 = field("4+", ignorable=True)
    session_id: int32 = field("7+", ignorable=True)
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[FetchForgottenTopic] = field("7+")
    rack_id: string = field("11+", ignorable=True)


@frozen_struct
class FetchEpochEndOffset:
    epoch: int32 = field("12+", default=-1)
    end_offset: int64 = field("12+", default=-1)


@frozen_struct
class FetchLeaderIdAndEpoch:
    leader_id: BrokerId = field("12+", default=-1)
    leader_epoch: int32 = field("12+", default=-1)


@frozen_struct
class FetchSnapshotId:
    end_offset: int64 = field("0+", default=-1)
    epoch: int32 = field("0+", default=-1)


@struct
class AbortedTransaction:
    producer_id: ProducerId = field("4+")
    first_offset: int64 = field("4+")


@struct
class FetchPartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    high_watermark: int64 = field("0+")
    last_stable_offset: int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: FetchEpochEndOffset = field("12+", tag=0, tagged="12+")
    current_leader: FetchLeaderIdAndEpoch = field("12+", tag=1, tagged="12+")
    snapshot_id: FetchSnapshotId = field("12+", tag=2, tagged="12+")
    aborted_transactions: list[AbortedTransaction] | None = field("4+", nullable="4+", ignorable=True)
    preferred_read_replica: BrokerId = field("11+", default=-1)
    records: Records | None = field("0+", nullable="0+")


@struct
class FetchableTopicResponse:
    topic: TopicName = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[FetchPartitionData] = field("0+")


@struct
class FetchNodeEndpoint:
    node_id: BrokerId = field("16+")
    host: string = field("16+")
    port: int32 = field("16+")
    rack: string | None = field("16+", nullable="16+", default=None)


@message(key=1, kind="response", versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("7+", ignorable=True)
    session_id: int32 = field("7+")
    responses: list[FetchableTopicResponse] = field("0+")
    node_endpoints: list[FetchNodeEndpoint] = field("16+", tag=0, tagged="16+")

"""Metadata: brokers, topics, partitions and their leaders. Creates missing topics if the broker is configured to do so.

In version 0 an empty list of topics stands for all of them. Since then null does, and an empty list stands for none.

    1  rack, controller id, internal topics
    2  cluster id
    3  throttle time
    4  the client may forbid creation
    5  offline replicas (KIP-112)
    7  leader epoch (KIP-320)
    8  authorised operations (KIP-430)
    9  flexible
    10  topic ids in responses (KIP-516)
    11  the cluster's authorised operations moved to DescribeCluster (KIP-700)
    12  requests by topic id
    13  error code for the whole response: REBOOTSTRAP_REQUIRED (KIP-1102)
"""

from kwire.protocol.primitives import BrokerId, TopicName, boolean, int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class MetadataRequestTopic:
    topic_id: uuid = field("10+", ignorable=True)
    name: TopicName | None = field("0+", nullable="10+")


@message(key=3, kind="request", versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field("0+", nullable="1+")
    allow_auto_topic_creation: boolean = field("4+", default=True)
    include_cluster_authorized_operations: boolean = field("8-10")
    include_topic_authorized_operations: boolean = field("8+")


@struct
class MetadataResponseBroker:
    node_id: BrokerId = field("0+")
    host: string = field("0+")
    port: int32 = field("0+")
    rack: string | None = field("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int16 = field("0+")
    partition_index: int32 = field("0+")
    leader_id: BrokerId = field("0+")
    leader_epoch: int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[BrokerId] = field("0+")
    isr_nodes: list[BrokerId] = field("0+")
    offline_replicas: list[BrokerId] = field("5+", ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int16 = field("0+")
    name: TopicName | None = field("0+", nullable="12+")
    topic_id: uuid = field("10+", ignorable=True)
    is_internal: boolean = field("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field("0+")
    topic_authorized_operations: int32 = field("8+", default=-0x80000000)


@message(key=3, kind="response", versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field("0+")
    cluster_id: string | None = field("2+", nullable="2+", default=None, ignorable=True)
    controller_id: BrokerId = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field("0+")
    cluster_authorized_operations: int32 = field("8-10", default=-0x80000000)
    error_code: int16 = field("13+", ignorable=True)

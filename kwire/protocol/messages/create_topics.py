"""CreateTopics: create topics, by counts of partitions and replicas or by an explicit assignment.

4  -1 means the broker's default for either count (KIP-464)
5  flexible; counts and configuration in the response (KIP-525)
6  THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599)
7  topic ids in the response (KIP-516)
"""

from kwire.protocol.primitives import BrokerId, TopicName, boolean, int8, int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: int32 = field("0+")
    broker_ids: list[BrokerId] = field("0+")


@struct
class CreatableTopicConfig:
    name: string = field("0+")
    value: string | None = field("0+", nullable="0+")


@struct
class CreatableTopic:
    name: TopicName = field("0+")
    num_partitions: int32 = field("0+")
    replication_factor: int16 = field("0+")
    assignments: list[CreatableReplicaAssignment] = field("0+")
    configs: list[CreatableTopicConfig] = field("0+")


@message(key=19, kind="request", versions="2-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field("0+")
    timeout_ms: int32 = field("0+", default=60000)
    validate_only: boolean = field("1+")


@struct
class CreatableTopicConfigs:
    name: string = field("5+")
    value: string | None = field("5+", nullable="5+")
    read_only: boolean = field("5+")
    config_source: int8 = field("5+", default=-1, ignorable=True)
    is_sensitive: boolean = field("5+")


@struct
class CreatableTopicResult:
    name: TopicName = field("0+")
    topic_id: uuid = field("7+", ignorable=True)
    error_code: int16 = field("0+")
    error_message: string | None = field("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int16 = field("5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", nullable="5+", ignorable=True)


@message(key=19, kind="response", versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[CreatableTopicResult] = field("0+")

"""AlterPartition: report new in-sync replicas from the partition leaders to the controller (KIP-497).

2  topic ids replace names (KIP-841), recovery after unclean elections (KIP-704)
3  epochs of the brokers in the in-sync set: one that restarted meanwhile is rejected (KIP-903)
"""

from kwire.protocol.primitives import BrokerId, int8, int16, int32, int64, uuid
from kwire.protocol.schema import field, message, struct


@struct
class AlterPartitionBrokerState:
    broker_id: BrokerId = field("3+")
    broker_epoch: int64 = field("3+", default=-1)
    """-1 if it must not be checked."""


@struct
class AlterPartitionRequestPartitionData:
    partition_index: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    new_isr: list[BrokerId] = field("0-2")
    new_isr_with_epochs: list[AlterPartitionBrokerState] = field("3+")
    leader_recovery_state: int8 = field("1+")
    """1 while the leader recovers from an unclean election, else 0."""
    partition_epoch: int32 = field("0+")
    """Partition epoch on which this change is based."""


@struct
class AlterPartitionRequestTopicData:
    topic_id: uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = field("0+")


@message(key=56, kind="request", versions="2-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    topics: list[AlterPartitionRequestTopicData] = field("0+")


@struct
class AlterPartitionResponsePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: BrokerId = field("0+")
    leader_epoch: int32 = field("0+")
    isr: list[BrokerId] = field("0+")
    leader_recovery_state: int8 = field("1+", ignorable=True)
    """1 while the leader recovers from an unclean election, else 0."""
    partition_epoch: int32 = field("0+")


@struct
class AlterPartitionResponseTopicData:
    topic_id: uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = field("0+")


@message(key=56, kind="response", versions="2-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    topics: list[AlterPartitionResponseTopicData] = field("0+")

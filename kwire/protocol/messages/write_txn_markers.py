"""WriteTxnMarkers: write a coordinator's transaction markers to the partitions of a leader (KIP-98).

1  flexible
2  transaction version, which determines how strictly the marker's epoch is checked (KIP-1228)
"""

from kwire.protocol.primitives import ProducerId, TopicName, boolean, int8, int16, int32
from kwire.protocol.schema import field, message, struct


@struct
class WritableTxnMarkerTopic:
    name: TopicName = field("0+")
    partition_indexes: list[int32] = field("0+")


@struct
class WritableTxnMarker:
    producer_id: ProducerId = field("0+")
    producer_epoch: int16 = field("0+")
    transaction_result: boolean = field("0+")
    """True commits, false aborts."""
    topics: list[WritableTxnMarkerTopic] = field("0+")
    coordinator_epoch: int32 = field("0+")
    """Leader epoch of the coordinator's partition of __transaction_state."""
    transaction_version: int8 = field("2+", ignorable=True)
    """0 and 1 are the classic protocol, 2 has an epoch per transaction."""


@message(key=27, kind="request", versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field("0+")


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


@struct
class WritableTxnMarkerTopicResult:
    name: TopicName = field("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = field("0+")


@struct
class WritableTxnMarkerResult:
    producer_id: ProducerId = field("0+")
    topics: list[WritableTxnMarkerTopicResult] = field("0+")


@message(key=27, kind="response", versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field("0+")

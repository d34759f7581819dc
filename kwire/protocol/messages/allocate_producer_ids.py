"""AllocateProducerIds: allocate a block of producer ids for a broker from the controller (KIP-730)."""

from kwire.protocol.primitives import BrokerId, ProducerId, int16, int32, int64
from kwire.protocol.schema import field, message


@message(key=67, kind="request", versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+", default=-1)


@message(key=67, kind="response", versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id_start: ProducerId = field("0+")
    """First id of the block."""
    producer_id_len: int32 = field("0+")

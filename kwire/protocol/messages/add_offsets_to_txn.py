"""AddOffsetsToTxn: add a group's partition of __consumer_offsets to a transaction (KIP-98).

The transaction will commit offsets of the group.

2  PRODUCER_FENCED may be returned (KIP-588)
3  flexible
4  TRANSACTION_ABORTABLE may be returned (KIP-890)
"""

from kwire.protocol.primitives import GroupId, ProducerId, TransactionalId, int16, int32
from kwire.protocol.schema import field, message


@message(key=25, kind="request", versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: TransactionalId = field("0+")
    producer_id: ProducerId = field("0+")
    producer_epoch: int16 = field("0+")
    group_id: GroupId = field("0+")


@message(key=25, kind="response", versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")

"""EndTxn: commit or abort a transaction (KIP-98).

2  PRODUCER_FENCED may be returned (KIP-588)
3  flexible
4  TRANSACTION_ABORTABLE may be returned (KIP-890)
5  one epoch per transaction: the response contains the next epoch, and a new id if the epochs are exhausted (KIP-890)
"""

from kwire.protocol.primitives import ProducerId, TransactionalId, boolean, int16, int32
from kwire.protocol.schema import field, message


@message(key=26, kind="request", versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: TransactionalId = field("0+")
    producer_id: ProducerId = field("0+")
    producer_epoch: int16 = field("0+")
    committed: boolean = field("0+")
    """False aborts."""


@message(key=26, kind="response", versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id: ProducerId = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)

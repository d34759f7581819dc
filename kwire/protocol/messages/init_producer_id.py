"""InitProducerId: a producer id and epoch, for idempotent and for transactional producers.

2  flexible
3  a producer may request the next epoch of its id (KIP-360)
4  PRODUCER_FENCED may be returned (KIP-588)
5  TRANSACTION_ABORTABLE may be returned (KIP-890)
6  two-phase commit (KIP-939); Kafka offers it only with unstable versions enabled
"""

from kwire.protocol.primitives import ProducerId, TransactionalId, boolean, int16, int32
from kwire.protocol.schema import field, message


@message(key=22, kind="request", versions="0-6", flexible="2+")
class InitProducerIdRequest:
    transactional_id: TransactionalId | None = field("0+", nullable="0+")
    transaction_timeout_ms: int32 = field("0+")
    producer_id: ProducerId = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable2_pc: boolean = field("6+")
    keep_prepared_txn: boolean = field("6+")


@message(key=22, kind="response", versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    producer_id: ProducerId = field("0+", default=-1)
    producer_epoch: int16 = field("0+")
    ongoing_txn_producer_id: ProducerId = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)

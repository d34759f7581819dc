"""UnregisterBroker: remove a broker permanently (KIP-631)."""

from kwire.protocol.primitives import BrokerId, int16, int32, string
from kwire.protocol.schema import field, message


@message(key=64, kind="request", versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: BrokerId = field("0+")


@message(key=64, kind="response", versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")

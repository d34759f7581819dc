"""BrokerRegistration: register a starting broker with the controller, which assigns its epoch (KIP-631).

1  brokers that migrate from ZooKeeper (KIP-866)
2  directory ids (KIP-858)
3  epoch of the last clean shutdown, which proves that no replica lost records (KIP-966)
4  features whose lowest version is 0 are no longer omitted (KAFKA-17011)
"""

from kwire.protocol.primitives import BrokerId, boolean, int16, int32, int64, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class BrokerRegistrationListener:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


@struct
class BrokerRegistrationFeature:
    name: string = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


@message(key=62, kind="request", versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    broker_id: BrokerId = field("0+")
    cluster_id: string = field("0+")
    incarnation_id: uuid = field("0+")
    """New for each start of the process."""
    listeners: list[BrokerRegistrationListener] = field("0+")
    features: list[BrokerRegistrationFeature] = field("0+")
    rack: string | None = field("0+", nullable="0+")
    is_migrating_zk_broker: boolean = field("1+")
    log_dirs: list[uuid] = field("2+", ignorable=True)
    """Log directories that are online."""
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)
    """-1 unless the last shutdown was clean."""


@message(key=62, kind="response", versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    """-1 if the registration failed."""

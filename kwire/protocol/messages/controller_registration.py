"""ControllerRegistration: register a controller's endpoints and features with the active controller (KIP-919)."""

from kwire.protocol.primitives import boolean, int16, int32, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class ControllerRegistrationListener:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


@struct
class ControllerRegistrationFeature:
    name: string = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


@message(key=70, kind="request", versions="0", flexible="0+")
class ControllerRegistrationRequest:
    controller_id: int32 = field("0+")
    incarnation_id: uuid = field("0+")
    """New for each start of the process."""
    zk_migration_ready: boolean = field("0+")
    listeners: list[ControllerRegistrationListener] = field("0+")
    features: list[ControllerRegistrationFeature] = field("0+")


@message(key=70, kind="response", versions="0", flexible="0+")
class ControllerRegistrationResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")

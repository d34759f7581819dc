"""PushTelemetry: send the metrics of a client's subscription (KIP-714)."""

from kwire.protocol.primitives import boolean, bytes_, int8, int16, int32, uuid
from kwire.protocol.schema import field, message


@message(key=72, kind="request", versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: uuid = field("0+")
    subscription_id: int32 = field("0+")
    terminating: boolean = field("0+")
    """True for the last push, before the client stops."""
    compression_type: int8 = field("0+")
    metrics: bytes_ = field("0+")
    """OpenTelemetry's MetricsData in protobuf, compressed with the codec in the request."""


@message(key=72, kind="response", versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")

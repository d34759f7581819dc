"""GetTelemetrySubscriptions: return the metrics that the broker requests from a client, and the interval (KIP-714)."""

from kwire.protocol.primitives import boolean, int8, int16, int32, string, uuid
from kwire.protocol.schema import field, message


@message(key=71, kind="request", versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: uuid = field("0+")
    """Zero in the first request; the broker then assigns an id."""


@message(key=71, kind="response", versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    client_instance_id: uuid = field("0+")
    """Assigned id; zero if the request contained one."""
    subscription_id: int32 = field("0+")
    accepted_compression_types: list[int8] = field("0+")
    """In order of preference."""
    push_interval_ms: int32 = field("0+")
    telemetry_max_bytes: int32 = field("0+")
    delta_temporality: boolean = field("0+")
    """True if counters are sent as differences from the last push."""
    requested_metrics: list[string] = field("0+")
    """Prefixes of metric names. An empty list selects no metrics, an empty prefix all of them."""

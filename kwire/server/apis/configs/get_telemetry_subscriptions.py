"""GetTelemetrySubscriptions: return the metrics that a client should push, and the interval (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.chunks import Pieces
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

PREFERRED_COMPRESSION = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


def handle_get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> Pieces[GetTelemetrySubscriptionsResponse]:
    services = context.services
    try:
        instance_id, subscription = yield from services.client_telemetry.subscribe(
            request.client_instance_id, client_attributes(context), services.image
        )
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=[int(codec) for codec in PREFERRED_COMPRESSION],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=services.client_telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=subscription.metrics,
    )


def client_attributes(context: RequestContext) -> Mapping[str, str]:
    """Return the client properties that subscriptions match."""
    connection = context.connection
    name, version = connection.client_software
    return {
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": connection.peer_host,
        "client_source_port": str(connection.peer_port),
    }


API = Api(
    request=GetTelemetrySubscriptionsRequest,
    response=GetTelemetrySubscriptionsResponse,
    handle=handle_get_telemetry_subscriptions,
    is_advertised=False,
)

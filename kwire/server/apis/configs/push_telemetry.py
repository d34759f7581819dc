"""PushTelemetry: check the metrics of a client and drop them, because there is no receiver (KIP-714)."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.server.apis.configs.get_telemetry_subscriptions import client_attributes
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_push_telemetry(request: PushTelemetryRequest, context: RequestContext) -> Pieces[PushTelemetryResponse]:
    services = context.services
    try:
        yield from services.client_telemetry.push(
            request.client_instance_id,
            client_attributes(context),
            services.image,
            subscription_id=request.subscription_id,
            is_terminating=request.terminating,
            compression_type=request.compression_type,
            size=len(request.metrics),
        )
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()


API = Api(
    request=PushTelemetryRequest, response=PushTelemetryResponse, handle=handle_push_telemetry, is_advertised=False
)

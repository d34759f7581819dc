"""Envelope: serve a client's request that a broker forwards to the active controller (KIP-590)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from kwire.chunks import Pieces, in_turns, whole
from kwire.protocol.codec import pieces_decoder
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.framing import ParsedRequestHeader, parse_request_header, pieces_framer
from kwire.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kwire.server.apis.cluster.administration import AT_CONTROLLER
from kwire.server.other_nodes.envelopes import decode_principal, says_not_controller
from kwire.server.requests.api import Api
from kwire.server.requests.context import ForwardedClient, RequestContext
from kwire.server.requests.services import ControllerContext, ControllerServices

SIZE_BYTES = 4
_FORWARDABLE = {int(api.key): api for api in AT_CONTROLLER}


async def handle_envelope(request: EnvelopeRequest, context: ControllerContext) -> EnvelopeResponse:
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        client = _client(request, context)
        header, api, inner = await in_turns(_open(bytes(request.request_data)))
        forwarded = RequestContext(
            context.services,
            client,
            context.listener_name,
            api.key,
            header.api_version,
            header.correlation_id,
            header.client_id,
        )
        response = await whole(api.handle(inner, forwarded))
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    if says_not_controller(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    buffers = await in_turns(pieces_framer(type(response), header.api_version)(header.correlation_id, response))
    return EnvelopeResponse(response_data=b"".join(buffers)[SIZE_BYTES:])


def _client(request: EnvelopeRequest, context: ControllerContext) -> ForwardedClient:
    try:
        host = str(ip_address(bytes(request.client_host_address)))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST) from error
    try:
        principal, token_authenticated = decode_principal(request.request_principal)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from error
    return ForwardedClient(
        peer_host=host,
        peer_port=context.connection.peer_port,
        principal=principal,
        token_authenticated=token_authenticated,
    )


def _open(data: bytes) -> Pieces[tuple[ParsedRequestHeader, Api[ControllerServices], Any]]:
    """Return the request in an envelope, decoded in pieces. Raises KafkaError.

    As in Kafka, a request that cannot be decoded is UNSUPPORTED_VERSION, and one that must not be in
    an envelope is INVALID_REQUEST.
    """
    try:
        header = parse_request_header(data)
        api = _FORWARDABLE.get(header.api_key)
        if api is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not api.min_version <= header.api_version <= api.max_version:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        inner: Any
        inner, _ = yield from pieces_decoder(api.request, header.api_version)(data, header.body_position)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION) from error
    return header, api, inner


API = Api(request=EnvelopeRequest, response=EnvelopeResponse, handle=handle_envelope)

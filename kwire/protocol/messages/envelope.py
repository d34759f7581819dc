"""Envelope: forward a client's request with its principal to the controller (KIP-590)."""

from kwire.protocol.primitives import bytes_, int16
from kwire.protocol.schema import field, message


@message(key=58, kind="request", versions="0", flexible="0+")
class EnvelopeRequest:
    request_data: bytes_ = field("0+")
    """Header and body of the request."""
    request_principal: bytes_ | None = field("0+", nullable="0+")
    """DefaultPrincipalData, preceded by its version."""
    client_host_address: bytes_ = field("0+")
    """4 or 16 bytes."""


@message(key=58, kind="response", versions="0", flexible="0+")
class EnvelopeResponse:
    response_data: bytes_ | None = field("0+", nullable="0+", default=None)
    """Header and body of the response; None for an error."""
    error_code: int16 = field("0+")

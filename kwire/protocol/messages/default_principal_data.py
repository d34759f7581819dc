"""DefaultPrincipalData: a client's principal, as a broker forwards it in an Envelope (KIP-590)."""

from kwire.protocol.primitives import boolean, string
from kwire.protocol.schema import field, message


@message(kind="data", versions="0", flexible="0+")
class DefaultPrincipalData:
    type: string = field("0+")
    name: string = field("0+")
    token_authenticated: boolean = field("0+")
    """True if the client authenticated with a delegation token."""

"""Listener with TLS or SASL of a campaign: its settings, and clients that connect to it and log in."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric import rsa

from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.requesting import frame_request
from kwire.server.security.sasl.jaas import PLAIN_MODULE
from tests.hostile.attack import CONNECT_SECONDS, Connection
from tests.server.security.sasl.logins import log_in
from tests.support.certificates import Authority
from tests.support.raw_client import RawClient

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "alice", "secret of alice"
RIGHT_TOKEN: Final = f"\0{USER}\0{PASSWORD}".encode()


@dataclass(frozen=True, slots=True)
class SecuredListener:
    """Listener at 127.0.0.1, next to one without security for the campaign itself."""

    protocol: str
    port: int
    authority_pem: str
    node_pem: str
    """File with the key and the certificate of the node."""

    @classmethod
    def create(cls, protocol: str, port: int, directory: Path, *, rsa_bits: int = 0) -> Self:
        """Create the certificates of a listener in a directory; with RSA in place of an elliptic curve."""
        authority = Authority()
        key = rsa.generate_private_key(public_exponent=65537, key_size=rsa_bits) if rsa_bits else None
        node = authority.issue(key=key).pem_file(directory / "node.pem")
        return cls(protocol, port, authority.pem, str(node))

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the broker; underscores stand for dots."""
        names = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "ATTACKED": self.protocol}
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:0,ATTACKED://127.0.0.1:{self.port}",
            "listener_security_protocol_map": ",".join(f"{name}:{kind}" for name, kind in names.items()),
            "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener_name_attacked_plain_sasl_jaas_config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
            "ssl_keystore_type": "PEM",
            "ssl_keystore_location": self.node_pem,
        }

    # --- clients

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.authority_pem)
        return context

    def client(self) -> RawClient:
        """Return a client that is connected and logged in."""
        client = RawClient(f"127.0.0.1:{self.port}", client_id="honest", tls=self.context() if self.uses_tls else None)
        if self.uses_sasl:
            assert log_in(client, "PLAIN", USER, PASSWORD) == ""
        return client

    async def connect(self, source: str, context: ssl.SSLContext | None) -> Connection:
        """Open a connection from this address; with a context over TLS."""
        return await asyncio.wait_for(
            asyncio.open_connection(
                "127.0.0.1",
                self.port,
                local_addr=(source, 0),
                ssl=context,
                server_hostname="127.0.0.1" if context else None,
            ),
            CONNECT_SECONDS,
        )


def handshake_frame(mechanism: str = "PLAIN") -> bytes:
    return frame_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "attacker")


def token_frame(token: bytes) -> bytes:
    return frame_request(SaslAuthenticateRequest(auth_bytes=token), 2, 2, "attacker")

"""Frames of a client that authenticates, and listeners with SASL, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from kwire.cluster.metadata.delegation_tokens import TokenSettings
from kwire.cluster.metadata.scram import ScramMechanism, make_credential, salt_password
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.requesting import frame_request
from kwire.seams import ThreadWorkers
from kwire.server.security.sasl.jaas import PLAIN_MODULE
from kwire.server.security.sasl.listener_sasl import ListenerSasl
from kwire.server.security.sasl.sasl_settings import read_sasl_settings
from kwire.server.security.sasl.scram import ScramClient
from kwire.server.security.sasl.token_logins import TokenLogins
from kwire.server.settings.config import make_config
from tests.support.raw_client import decoded

ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_JAAS = f'{PLAIN_MODULE} required username="admin" password="x" user_admin="x" user_alice="y";'
RIGHT, WRONG = b"\0alice\0y", b"\0alice\0n"
SCRAM_PASSWORD = "pencil"


def settings_of(
    name: str = "SASL", mechanisms: Sequence[str] = ALL, address: str = "127.0.0.1:0", **others: str
) -> dict[str, str]:
    """Return the settings of a broker with one SASL listener; underscores in `others` stand for dots."""
    return {
        "listeners": f"{name}://{address}",
        "listener.security.protocol.map": f"{name}:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        f"listener.name.{name.lower()}.plain.sasl.jaas.config": PLAIN_JAAS,
        **{key.replace("_", "."): value for key, value in others.items()},
    }


def user_with(password: str = SCRAM_PASSWORD) -> dict[int, Any]:
    """Return credentials of a user for both mechanisms."""
    return {
        mechanism: make_credential(
            mechanism,
            salt_password(mechanism, password, salt=b"salt", iterations=4096),
            salt=b"salt",
            iterations=4096,
        )
        for mechanism in ScramMechanism
    }


@dataclass
class Clock:
    """Time in milliseconds, which a test moves."""

    ms: float = 0.0

    def __call__(self) -> float:
        return self.ms


def token_logins(key: str | None = None, wall_ms: Callable[[], int] = lambda: 0) -> TokenLogins:
    """Return logins by delegation token; without a key there are none."""
    settings = TokenSettings(secret_key=key, lifetime_ms_max=1, renewal_ms=1, check_interval_ms=1)
    return TokenLogins(settings, ThreadWorkers(), wall_ms)


@dataclass
class Sasl:
    """A listener's SASL and its users."""

    settings: dict[str, str] = field(default_factory=settings_of)
    users: dict[str, dict[int, Any]] = field(default_factory=lambda: {"alice": user_with(), "bob": user_with()})

    def listener(self) -> ListenerSasl:
        config = make_config(self.settings)
        read = read_sasl_settings(config.listeners[0].name, config.values, config.parsed)
        return ListenerSasl(
            config.listeners[0].name,
            lambda: read,
            lambda: cast("Any", SimpleNamespace(scram=self.users, delegation_tokens={})),
            token_logins(),
        )


def framed(request: Any, version: int, correlation_id: int = 7) -> bytes:
    """Return a request without its size."""
    return frame_request(request, version, correlation_id, "client")[4:]


def versions(version: int = 3, name: str = "test", software: str = "1") -> bytes:
    return framed(ApiVersionsRequest(client_software_name=name, client_software_version=software), version)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return framed(SaslHandshakeRequest(mechanism=mechanism), version)


def token(content: bytes, version: int = 2) -> bytes:
    return framed(SaslAuthenticateRequest(auth_bytes=content), version)


def handshake_answer(buffers: Any, version: int = 1) -> Any:
    return decoded(b"".join(buffers)[4:], SaslHandshakeRequest(), version)


def token_answer(buffers: Any, version: int = 2) -> Any:
    return decoded(b"".join(buffers)[4:], SaslAuthenticateRequest(), version)


def scram_client(user: str = "alice", password: str = SCRAM_PASSWORD, mechanism: int = 1) -> ScramClient:
    return ScramClient(ScramMechanism(mechanism), user, password, "client-nonce")

"""A broker with a listener of each security protocol, its certificates and its users."""

from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from cryptography.x509.oid import NameOID

from compat_tests.confluent_kafka_client.client import admin
from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.waiting import eventually
from compat_tests.security import oauthbearer
from compat_tests.security.oauthbearer import Provider
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.support.certificates import Authority, name_of

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
CERTIFIED = "CERTIFIED"
"""Listener with TLS that requires certificates of clients."""
EXPIRED = "EXPIRED"
"""Listener with TLS whose certificate has expired."""
LISTENERS = {name: name for name in PROTOCOLS} | {CERTIFIED: SSL, EXPIRED: SSL}
"""Listener name to security protocol."""
SCRAM = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = ("PLAIN", *SCRAM, oauthbearer.MECHANISM)
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
"""Users of all mechanisms; admin is a super user, and alice has no rights."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """Address, credentials and files of a client; a file is None if there is none."""

    address: str
    protocol: str
    mechanism: str | None = None
    user: str = "admin"
    password: str = USERS["admin"]
    authority: Path | None = None
    identity: Path | None = None
    """File with the client's private key and certificate."""
    provider: Provider | None = None
    """Identity provider of OAUTHBEARER, which issues tokens to the user."""
    is_token: bool = False
    """Log in by SCRAM with a delegation token: the user is its id, and the password its HMAC."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)


class Files:
    """Certificates in a directory: those of the broker, and those of clients."""

    def __init__(self, directory: Path) -> None:
        authority, self._directory = Authority(), directory
        self.authority = authority.pem_file(directory / "ca.pem")
        self.other_authority = Authority("Another authority").pem_file(directory / "other-ca.pem")
        self.broker = authority.issue().pem_file(directory / "broker.pem")
        self.expired_broker = authority.issue(days=-1).pem_file(directory / "expired-broker.pem")
        subject = name_of([(NameOID.ORGANIZATION_NAME, "Example"), (NameOID.COMMON_NAME, "Carol")])
        self.client = authority.issue(subject).pem_file(directory / "client.pem")
        self.stranger = Authority("Another authority").issue("stranger").pem_file(directory / "stranger.pem")


def settings_of(files: Files, port: int, provider: Provider) -> tuple[dict[str, str], dict[str, str]]:
    """Return (settings of a broker whose PLAINTEXT listener has this port, address of each listener)."""
    addresses = {name: f"{HOST}:{each}" for name, each in zip(LISTENERS, free_ports(len(LISTENERS)), strict=True)}
    addresses[PLAINTEXT] = f"{HOST}:{port}"
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    plain = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    modules = {"plain": f"{PLAIN_MODULE} required {plain};"} | {
        each.lower(): f"{SCRAM_MODULE} required;" for each in SCRAM
    }
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in (*LISTENERS.items(), ("CONTROLLER", PLAINTEXT))
        ),
        "inter.broker.listener.name": PLAINTEXT,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),O=Example$/$1/L,DEFAULT",
        "listener.name.certified.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": str(files.expired_broker),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "0",  # repeated failures of an address are delayed more and more
        "delegation.token.secret.key": "secret of the tokens",
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS;User:admin",
    }
    settings |= provider.settings(SASL_PLAINTEXT, SASL_SSL)
    for listener in (SASL_PLAINTEXT, SASL_SSL):
        for mechanism, module in modules.items():
            settings[f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config"] = module
    return settings, addresses


def of_apache_kafka(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with a listener of the controller, which Apache Kafka needs."""
    controller = f"{HOST}:{free_ports(1)[0]}"
    return settings | {
        "listeners": f"{settings['listeners']},CONTROLLER://{controller}",
        "controller.quorum.bootstrap.servers": controller,
    }


class Secured:
    """Running broker with its listeners."""

    def __init__(self, name: str, addresses: dict[str, str], files: Files, provider: Provider) -> None:
        self.name = name
        self.addresses = addresses
        self.files = files
        self.provider = provider

    def allow(self, user: str, topic: str) -> None:
        """Allow a user everything with a topic and with all groups; wait until the broker describes the entries."""
        client = admin(self.addresses[PLAINTEXT])
        entries = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ALL, AclPermissionType.ALLOW
            )
            for kind, name in ((ResourceType.TOPIC, topic), (ResourceType.GROUP, "*"))
        ]
        for future in client.create_acls(entries).values():
            future.result(timeout=20)
        asked = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        eventually(lambda: client.describe_acls(asked).result(timeout=20), "the entries")

    def login(self, listener: str, mechanism: str | None = None, **changed: object) -> Login:
        """Return what a client needs to be served; `changed` are other values of its fields."""
        own = Login(
            address=self.addresses[listener],
            protocol=LISTENERS[listener],
            mechanism=mechanism,
            authority=self.files.authority,
            identity=self.files.client if listener == CERTIFIED else None,
            provider=self.provider,
        )
        return replace(own, **changed)

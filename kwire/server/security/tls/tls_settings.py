"""Settings of TLS for one listener name: the listener itself, and connections to the same listener of other nodes.

A setting that cannot be used raises TlsRejected, which names its key. The messages never contain a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kwire.cluster.configs.config_keys import ConfigError
from kwire.cluster.configs.settings import read_settings, setting
from kwire.server.settings.config import SettingError
from kwire.server.settings.listener_values import values_of_listener
from kwire.server.settings.security_protocols import SecurityProtocol

PEM: Final = "PEM"
STORE_TYPES: Final = ("JKS", "PKCS12", PEM)
VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
HTTPS: Final = "https"
CLIENT_AUTH: Final = "ssl.client.auth"


class TlsRejected(Exception):  # noqa: N818 the name says what happened
    """A setting of TLS cannot be used: `key` is the setting, `why` is one line without secrets."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key = key
        self.why = why

    def on_listener(self, name: str) -> SettingError:
        """Return the error of a start or of a change of settings, which names the listener."""
        return SettingError(f"{self.key} of listener {name}: {self.why}")


class PrincipalRefusedError(Exception):
    """The certificate of a client leads to no principal; the message is the reason to close its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerRole:
    """Use of a listener name by a node."""

    name: str
    is_bound: bool
    """True if the node accepts connections on the listener."""
    is_outgoing: bool
    """True if the node connects to the same listener of other nodes."""
    uses_sasl: bool
    """True if clients have the principal of a SASL login, not that of a certificate."""
    trusts_itself: bool
    """True if brokers connect to each other: the trust store must verify the key store, as in Apache Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Settings of TLS. Two equal objects lead to the same contexts, unless the content of a file has changed."""

    client_auth: str = setting("ssl.client.auth")
    protocol: str = setting("ssl.protocol")
    enabled_protocols: list[str] = setting("ssl.enabled.protocols")
    cipher_suites: list[str] = setting("ssl.cipher.suites")
    endpoint_identification: str = setting("ssl.endpoint.identification.algorithm")
    principal_mapping_rules: str = setting("ssl.principal.mapping.rules")
    allow_dn_changes: bool = setting("ssl.allow.dn.changes")
    allow_san_changes: bool = setting("ssl.allow.san.changes")
    keystore_type: str = setting("ssl.keystore.type")
    keystore_location: str | None = setting("ssl.keystore.location")
    keystore_password: str | None = setting("ssl.keystore.password", secret=True)
    key_password: str | None = setting("ssl.key.password", secret=True)
    keystore_key: str | None = setting("ssl.keystore.key", secret=True)
    certificate_chain: str | None = setting("ssl.keystore.certificate.chain", secret=True)
    truststore_type: str = setting("ssl.truststore.type")
    truststore_location: str | None = setting("ssl.truststore.location")
    truststore_password: str | None = setting("ssl.truststore.password", secret=True)
    truststore_certificates: str | None = setting("ssl.truststore.certificates", secret=True)

    @property
    def keystore_setting(self) -> str:
        """Key of the setting that has, or names, the key store."""
        return "ssl.keystore.location" if self.keystore_key is None else "ssl.keystore.key"

    @property
    def truststore_setting(self) -> str:
        """Key of the setting that has, or names, the trust store."""
        return "ssl.truststore.location" if self.truststore_certificates is None else "ssl.truststore.certificates"


def settings_of_listener(
    name: str, protocol: SecurityProtocol, texts: Mapping[str, str], values: Mapping[str, Any]
) -> TlsSettings:
    """Return the settings of a listener name; the arguments are those of values_of_listener. Raises SettingError.

    As in Apache Kafka, ssl.client.auth without a listener's prefix holds for SSL listeners, not for SASL_SSL ones.
    """
    try:
        found = dict(values_of_listener(name, texts, values))
    except ConfigError as error:
        raise SettingError(f"listener.name.{name.lower()}.{error.name}: {error}") from None
    if protocol.uses_sasl and f"listener.name.{name.lower()}.{CLIENT_AUTH}" not in texts:
        found[CLIENT_AUTH] = "none"
    return read_settings(TlsSettings, found)


def check_settings(settings: TlsSettings) -> None:
    """Raise TlsRejected for values that cannot be used, or that contradict each other."""
    _check_versions(settings)
    if settings.endpoint_identification.lower() not in ("", HTTPS):
        raise TlsRejected(
            "ssl.endpoint.identification.algorithm",
            f"{settings.endpoint_identification!r} is unknown; use https, or leave it empty to accept any host name",
        )
    _check_keystore(settings)
    _check_truststore(settings)


def _check_versions(settings: TlsSettings) -> None:
    if settings.protocol not in ("TLS", *VERSIONS):
        raise TlsRejected("ssl.protocol", f"{settings.protocol!r} is not served; use {' or '.join(VERSIONS)}")
    wrong = [version for version in settings.enabled_protocols if version not in VERSIONS]
    if wrong or not settings.enabled_protocols:
        raise TlsRejected(
            "ssl.enabled.protocols", f"{', '.join(wrong) or 'nothing'} is not served; use {' and '.join(VERSIONS)}"
        )


def _check_keystore(settings: TlsSettings) -> None:
    """Raise TlsRejected for half-given or contradicting settings of the key store."""
    key, chain, location = settings.keystore_key, settings.certificate_chain, settings.keystore_location
    _check_type("ssl.keystore.type", settings.keystore_type)
    is_pem = settings.keystore_type.upper() == PEM
    if key is None and chain is not None:
        raise TlsRejected("ssl.keystore.certificate.chain", "needs ssl.keystore.key, which is not set")
    if key is not None and chain is None:
        raise TlsRejected("ssl.keystore.key", "needs ssl.keystore.certificate.chain, which is not set")
    if key is not None and location is not None:
        raise TlsRejected("ssl.keystore.key", "contradicts ssl.keystore.location; set only one of them")
    if key is not None and not is_pem:
        raise TlsRejected("ssl.keystore.key", f"needs ssl.keystore.type=PEM, not {settings.keystore_type}")
    has_password = settings.keystore_password is not None
    if is_pem and has_password:
        raise TlsRejected("ssl.keystore.password", "PEM stores have no password; set ssl.key.password for the key")
    if not is_pem and has_password and location is None:
        raise TlsRejected("ssl.keystore.password", "needs ssl.keystore.location, which is not set")
    if not is_pem and location is not None and not has_password:
        raise TlsRejected("ssl.keystore.location", "needs ssl.keystore.password, which is not set")


def _check_truststore(settings: TlsSettings) -> None:
    """Raise TlsRejected for half-given or contradicting settings of the trust store."""
    certificates, location = settings.truststore_certificates, settings.truststore_location
    _check_type("ssl.truststore.type", settings.truststore_type)
    is_pem = settings.truststore_type.upper() == PEM
    if certificates is not None and location is not None:
        raise TlsRejected("ssl.truststore.certificates", "contradicts ssl.truststore.location; set only one of them")
    if certificates is not None and not is_pem:
        raise TlsRejected(
            "ssl.truststore.certificates", f"needs ssl.truststore.type=PEM, not {settings.truststore_type}"
        )
    if settings.truststore_password is None:
        return
    if is_pem:
        raise TlsRejected("ssl.truststore.password", "PEM stores have no password; leave it out")
    if location is None:
        raise TlsRejected("ssl.truststore.password", "needs ssl.truststore.location, which is not set")


def _check_type(key: str, kind: str) -> None:
    if kind.upper() not in STORE_TYPES:
        raise TlsRejected(key, f"{kind!r} is not served; use {', '.join(STORE_TYPES)}")

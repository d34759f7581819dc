"""SSLContext objects of the standard library, from settings and opened stores.

TLS 1.2 is the lowest version, without compression and without renegotiation, which a client could repeat to use the
broker's time.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding

from kwire.server.security.tls.alerts import AlertingContext
from kwire.server.security.tls.cipher_suites import restrict_suites
from kwire.server.security.tls.stores import KeyStore
from kwire.server.security.tls.tls_settings import TlsRejected, TlsSettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings, keys: KeyStore, trusted: Sequence[x509.Certificate] | None) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsRejected."""
    context = _context(AlertingContext(ssl.PROTOCOL_TLS_SERVER), settings, keys, trusted)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def client_context(
    settings: TlsSettings, keys: KeyStore | None, trusted: Sequence[x509.Certificate] | None
) -> ssl.SSLContext:
    """Return the context of connections to other nodes. Raises TlsRejected."""
    context = _context(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), settings, keys, trusted)
    context.check_hostname = bool(settings.endpoint_identification)
    return context


def _context(
    context: ssl.SSLContext, settings: TlsSettings, keys: KeyStore | None, trusted: Sequence[x509.Certificate] | None
) -> ssl.SSLContext:
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    versions = sorted(_VERSIONS[version] for version in settings.enabled_protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    restrict_suites(context, settings.cipher_suites)
    if keys is not None:
        _load_keys(context, settings, keys)
    if trusted is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if context.protocol == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
        )
    else:
        _load_trusted(context, settings, trusted)
    # Java trusts each certificate of a trust store, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings, trusted: Sequence[x509.Certificate]) -> None:
    try:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
    except ssl.SSLError as error:
        raise TlsRejected(settings.truststore_setting, f"OpenSSL refuses a certificate: {error.reason}") from None


def _load_keys(context: ssl.SSLContext, settings: TlsSettings, keys: KeyStore) -> None:
    """Give the context a private key. Raises TlsRejected.

    load_cert_chain reads only files. The file is readable by this user alone (0600) and removed at once, and the key
    in it is encrypted with a random password: a copy that outlives a crash opens nothing.
    """
    password = secrets.token_bytes(32).hex().encode()
    encrypted = keys.key.private_bytes(
        Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password)
    )
    try:
        with tempfile.NamedTemporaryFile(prefix="kwire-tls-") as file:
            file.write(encrypted + b"".join(each.public_bytes(Encoding.PEM) for each in keys.chain))
            file.flush()
            context.load_cert_chain(file.name, password=password)
    except ssl.SSLError as error:
        raise TlsRejected(settings.keystore_setting, f"OpenSSL refuses the key store: {error.reason}") from None
    except OSError as error:
        raise TlsRejected(
            settings.keystore_setting, f"needs a temporary file, which cannot be written: {error.strerror or error}"
        ) from None

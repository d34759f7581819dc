"""Checks of new stores against the present ones, as Apache Kafka's SslFactory makes them.

A certificate that is replaced while a node runs names the same node, and the nodes that already trust the old
certificates trust the new one.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections import deque
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kwire.server.security.tls.contexts import client_context, server_context
from kwire.server.security.tls.distinguished_names import subject_of
from kwire.server.security.tls.stores import KeyStore
from kwire.server.security.tls.tls_settings import TlsRejected, TlsSettings

Trusted = Sequence[x509.Certificate] | None
ROUNDS_MAX = 20
"""Steps of a handshake in memory; four are enough."""


def check_replacement(
    keys: KeyStore | None,
    trusted: Trusted,
    next_settings: TlsSettings,
    next_keys: KeyStore | None,
    next_trusted: Trusted,
) -> None:
    """Raise TlsRejected if the next stores must not replace the present ones."""
    key_store, trust_store = next_settings.keystore_setting, next_settings.truststore_setting
    if keys is None and next_keys is not None:
        raise TlsRejected(key_store, "cannot be added to a listener without a key store")
    if trusted is None and next_trusted is not None:
        raise TlsRejected(trust_store, "cannot be added to a listener without a trust store")
    if keys is None:
        return
    if next_keys is None:
        raise TlsRejected(key_store, "cannot be removed from a listener with a key store")
    before, after = keys.chain[0], next_keys.chain[0]
    if not next_settings.allow_dn_changes and not _is_same_name(before, after):
        raise TlsRejected(
            key_store,
            f"Keystore DistinguishedName does not match: existing={_name(before)}, new={_name(after)}; "
            "set ssl.allow.dn.changes=true to allow it",
        )
    missing = _alternative_names(before) - _alternative_names(after)
    if not next_settings.allow_san_changes and missing:
        raise TlsRejected(
            key_store,
            f"Keystore SubjectAltNames do not match: the new certificate lacks {', '.join(sorted(missing))}; "
            "set ssl.allow.san.changes=true to allow it",
        )


def _name(certificate: x509.Certificate) -> str:
    return subject_of(certificate.public_bytes(Encoding.DER))


def _is_same_name(before: x509.Certificate, after: x509.Certificate) -> bool:
    return before.subject == after.subject or _name(before).lower() == _name(after).lower()


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {f"{type(each).__name__} {each.value}" for each in found.value}


def check_own_trust(settings: TlsSettings, keys: KeyStore | None, trusted: Trusted) -> None:
    """Raise TlsRejected if nodes with this trust store would refuse a node with this key store.

    A handshake in memory decides, so that no rule of verification is written twice. Host names are not checked.
    """
    if keys is None:
        return
    anywhere = dataclasses.replace(settings, endpoint_identification="")
    try:
        _shake_hands(client_context(anywhere, keys, trusted), server_context(anywhere, keys, trusted))
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason
        raise TlsRejected(
            settings.truststore_setting, f"does not verify the certificate of {settings.keystore_setting}: {reason}"
        ) from None


def _shake_hands(client_side: ssl.SSLContext, server_side: ssl.SSLContext) -> None:
    """Connect two contexts in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    waiting = deque([client, server])
    for _ in range(ROUNDS_MAX):
        if not waiting:
            return
        side = waiting.popleft()
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
    raise AssertionError("a handshake in memory does not end")

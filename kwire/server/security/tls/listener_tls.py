"""TLS of one listener name: the contexts that new connections use, and their replacement while the node runs."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kwire.server.security.tls.contexts import client_context, server_context
from kwire.server.security.tls.distinguished_names import subject_of
from kwire.server.security.tls.principal_mapping import NoRuleMatchesError, PrincipalMapper
from kwire.server.security.tls.replacements import check_own_trust, check_replacement
from kwire.server.security.tls.store_files import Stamp, stamp_of
from kwire.server.security.tls.stores import KeyStore, read_key_store, read_trust_store
from kwire.server.security.tls.tls_settings import (
    ListenerRole,
    PrincipalRefusedError,
    TlsRejected,
    TlsSettings,
    check_settings,
)

logger = logging.getLogger(__name__)

ANONYMOUS: Final = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTls:
    """Contexts of a listener name and what they were made from. Never changed, but replaced."""

    settings: TlsSettings
    stamps: tuple[Stamp, Stamp]
    """Stamps of the files of key store and trust store, from before they were read."""
    keys: KeyStore | None
    trusted: tuple[x509.Certificate, ...] | None
    mapper: PrincipalMapper
    server: ssl.SSLContext | None = field(repr=False)
    """Context of accepted connections; None if the node does not bind the listener."""
    client: ssl.SSLContext | None = field(repr=False)
    """Context of connections to other nodes; None if the node makes none."""


def open_tls(role: ListenerRole, settings: TlsSettings) -> OpenedTls:
    """Read the stores and make the contexts; called in a worker. Raises TlsRejected."""
    check_settings(settings)
    mapper = PrincipalMapper(settings.principal_mapping_rules)
    stamps = _stamps(settings)
    keys, trusted = read_key_store(settings), read_trust_store(settings)
    if keys is None and role.is_bound:
        raise TlsRejected(
            "ssl.keystore.location", "is not set; a listener with TLS needs a key store (or ssl.keystore.key in PEM)"
        )
    opened = OpenedTls(
        settings=settings,
        stamps=stamps,
        keys=keys,
        trusted=trusted,
        mapper=mapper,
        server=server_context(settings, keys, trusted) if role.is_bound and keys is not None else None,
        client=client_context(settings, keys, trusted) if role.is_outgoing else None,
    )
    if role.trusts_itself:
        check_own_trust(settings, keys, trusted)
    return opened


class ListenerTls:
    """TLS of a listener name, as it is now."""

    def __init__(self, role: ListenerRole, opened: OpenedTls) -> None:
        self.role = role
        self._now = opened
        self._looked_at = opened.stamps
        """Stamps of the files at the last look at them."""
        _warn_if_expired(role.name, opened)

    @property
    def server_context(self) -> ssl.SSLContext:
        """Context of the next accepted connection."""
        assert self._now.server is not None, "the listener is bound"
        return self._now.server

    @property
    def client_context(self) -> ssl.SSLContext:
        """Context of the next connection to another node."""
        assert self._now.client is not None, "the node connects to this listener of others"
        return self._now.client

    def principal_of(self, connection: ssl.SSLObject) -> str:
        """Return the principal of an accepted connection. Raises PrincipalRefusedError."""
        certificate = None if self.role.uses_sasl else connection.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        try:
            return f"User:{self._now.mapper.name_of(subject_of(certificate))}"
        except ValueError as error:
            raise PrincipalRefusedError(f"the subject of its certificate cannot be read: {error}") from None
        except NoRuleMatchesError:
            raise PrincipalRefusedError(
                "no rule of ssl.principal.mapping.rules matches the subject of its certificate"
            ) from None

    def open_next(self, settings: TlsSettings, *, is_start: bool) -> OpenedTls:
        """Return what is to replace the contexts, or the present ones; called in a worker. Raises TlsRejected.

        The next stores are compared with the present ones. At start they are not: the present ones are those of
        server.properties, and the next ones have replaced them long ago.
        """
        now = self._now
        if settings == now.settings and _stamps(settings) == now.stamps:
            return now
        opened = open_tls(self.role, settings)
        if not is_start:
            check_replacement(now.keys, now.trusted, opened.settings, opened.keys, opened.trusted)
            if self.role.trusts_itself:
                if not _has_expired(now):  # else no node accepts it any more, and it must be replaceable
                    check_own_trust(now.settings, now.keys, opened.trusted)
                check_own_trust(opened.settings, opened.keys, now.trusted)
        return opened

    def has_new_files(self) -> bool:
        """Return whether a file of the present stores changed since the last look; called in a worker."""
        before, self._looked_at = self._looked_at, _stamps(self._now.settings)
        return self._looked_at not in (before, self._now.stamps)

    def replace(self, opened: OpenedTls) -> None:
        """Use other contexts for new connections; open ones stay as they are."""
        if opened is self._now:
            return
        self._now = opened
        logger.info("listener %s uses the certificate %s", self.role.name, _shown(opened.keys))
        _warn_if_expired(self.role.name, opened)


def _stamps(settings: TlsSettings) -> tuple[Stamp, Stamp]:
    return stamp_of(settings.keystore_location), stamp_of(settings.truststore_location)


def _shown(keys: KeyStore | None) -> str:
    if keys is None:
        return "of no key store"
    own = keys.chain[0]
    return f"{subject_of(own.public_bytes(Encoding.DER))} with serial number {own.serial_number:x}"


def _has_expired(opened: OpenedTls) -> bool:
    return opened.keys is not None and opened.keys.chain[0].not_valid_after_utc < datetime.now(UTC)


def _warn_if_expired(name: str, opened: OpenedTls) -> None:
    if _has_expired(opened):
        logger.warning("the certificate of listener %s has expired: clients refuse it", name)

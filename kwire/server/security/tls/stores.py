"""Key stores and trust stores of every kind: PEM, as a file or inline, PKCS12 and JKS.

As in Java, a file that is called JKS may be PKCS12, and the reverse: the content decides. Java's keytool writes PKCS12
into every new store since 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from kwire.server.security.tls import jks
from kwire.server.security.tls.der import SEQUENCE
from kwire.server.security.tls.store_files import PemBlock, pem_blocks, read_store
from kwire.server.security.tls.tls_settings import PEM, TlsRejected, TlsSettings

CERTIFICATE: Final = "CERTIFICATE"
KEY_LOCATION: Final = "ssl.keystore.location"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 the name of a setting
TRUST_LOCATION: Final = "ssl.truststore.location"

Certificates = Sequence[x509.Certificate]


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Private key of a node, and its certificates, the node's own first."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]


class _Opened(NamedTuple):
    """Content of a store: a key with its certificates, or only certificates."""

    key: PrivateKeyTypes | None
    certificates: list[x509.Certificate]


def read_key_store(settings: TlsSettings) -> KeyStore | None:
    """Return the key store; None without one. Raises TlsRejected."""
    if settings.keystore_key is not None:
        assert settings.certificate_chain is not None, "the settings are checked"
        key = _pem_key("ssl.keystore.key", "it", settings.keystore_key, settings.key_password)
        chain = _pem_certificates("ssl.keystore.certificate.chain", "it", settings.certificate_chain)
        return _matching("ssl.keystore.key", "the private key", key, chain)
    path = settings.keystore_location
    if path is None:
        return None
    data = read_store(KEY_LOCATION, path, is_secret=True)
    if settings.keystore_type.upper() == PEM:
        text = data.decode("latin-1")
        key = _pem_key(KEY_LOCATION, path, text, settings.key_password)
        return _matching(KEY_LOCATION, path, key, _pem_certificates(KEY_LOCATION, path, text))
    opened = _open_store(
        KEY_LOCATION, path, data, password=settings.keystore_password, key_password=settings.key_password
    )
    if opened.key is None or not opened.certificates:
        raise TlsRejected(KEY_LOCATION, f"{path} has no private key with a certificate")
    return _matching(KEY_LOCATION, path, opened.key, opened.certificates)


def read_trust_store(settings: TlsSettings) -> tuple[x509.Certificate, ...] | None:
    """Return the trusted certificates; None without a trust store: then those of the system. Raises TlsRejected."""
    if settings.truststore_certificates is not None:
        return tuple(_pem_certificates("ssl.truststore.certificates", "it", settings.truststore_certificates))
    path = settings.truststore_location
    if path is None:
        return None
    data = read_store(TRUST_LOCATION, path, is_secret=False)
    if settings.truststore_type.upper() == PEM:
        return tuple(_pem_certificates(TRUST_LOCATION, path, data.decode("latin-1")))
    opened = _open_store(TRUST_LOCATION, path, data, password=settings.truststore_password)
    if opened.key is not None or not opened.certificates:
        raise TlsRejected(TRUST_LOCATION, f"{path} has no trusted certificates, or has a private key")
    return tuple(opened.certificates)


def _matching(key: str, where: str, private: PrivateKeyTypes, certificates: Certificates) -> KeyStore:
    """Return the key with its chain, in order. Raises TlsRejected if no certificate belongs to the key."""
    own = private.public_key()
    for certificate in certificates:
        if _public_key(certificate) == own:
            try:
                _ = certificate.extensions, certificate.not_valid_after_utc  # as names, they are parsed when read
                return KeyStore(private, _chain(certificate, certificates))
            except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
                raise TlsRejected(key, f"{where} has a certificate that cannot be read: {_one_line(error)}") from None
    raise TlsRejected(key, f"{where} belongs to none of the certificates")


def _public_key(certificate: x509.Certificate) -> object:
    """Return the public key of a certificate; None for one of an unknown kind."""
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None


def _chain(own: x509.Certificate, others: Certificates) -> tuple[x509.Certificate, ...]:
    """Return the certificate followed by those of its issuers, as far as they are there."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


# --- PEM


def _blocks(key: str, where: str, text: str) -> list[PemBlock]:
    try:
        return pem_blocks(text)
    except ValueError as error:
        raise TlsRejected(key, f"{where} is not valid PEM: {error}") from None


def _pem_certificates(key: str, where: str, text: str) -> list[x509.Certificate]:
    blocks = [block.content for block in _blocks(key, where, text) if block.label == CERTIFICATE]
    if not blocks:
        raise TlsRejected(key, f"{where} has no CERTIFICATE in PEM format")
    return _certificates(key, where, blocks)


def _certificates(key: str, where: str, encoded: Iterable[bytes]) -> list[x509.Certificate]:
    try:
        return [x509.load_der_x509_certificate(each) for each in encoded]
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise TlsRejected(key, f"{where} has a certificate that cannot be read: {_one_line(error)}") from None


def _pem_key(key: str, where: str, text: str, password: str | None) -> PrivateKeyTypes:
    """Return the only private key of a PEM text. Raises TlsRejected."""
    blocks = [block for block in _blocks(key, where, text) if block.label.endswith("PRIVATE KEY")]
    if len(blocks) != 1:
        raise TlsRejected(key, f"{where} has {len(blocks)} private keys in PEM format, not one")
    return _load_key(key, where, blocks[0].content, password, is_encrypted=blocks[0].label.startswith("ENCRYPTED"))


def _load_key(key: str, where: str, der: bytes, password: str | None, *, is_encrypted: bool) -> PrivateKeyTypes:
    if is_encrypted and not password:
        raise TlsRejected(KEY_PASSWORD, f"is not set, but the private key of {key} is encrypted")
    if not is_encrypted and password is not None:
        raise TlsRejected(KEY_PASSWORD, f"is set, but the private key of {key} is not encrypted; leave it out")
    try:
        return serialization.load_der_private_key(der, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if is_encrypted:
            raise TlsRejected(KEY_PASSWORD, f"does not open the private key of {key}, or the key is damaged") from None
        raise TlsRejected(key, f"{where} has a private key that cannot be read: {_one_line(error)}") from None


# --- JKS and PKCS12


def _open_store(key: str, path: str, data: bytes, *, password: str | None, key_password: str | None = None) -> _Opened:
    """Return the content of a JKS or PKCS12 store. Raises TlsRejected."""
    read: Callable[..., _Opened]
    if data.startswith(jks.MAGIC):
        read = _open_jks
    elif data[:1] == bytes([SEQUENCE]):
        read = _open_pkcs12
    else:
        raise TlsRejected(key, f"{path} is neither a JKS nor a PKCS12 store; for a PEM file set the type to PEM")
    return read(key, path, data, password=password, key_password=key_password)


def _open_jks(key: str, path: str, data: bytes, *, password: str | None, key_password: str | None) -> _Opened:
    password_key = _password_key(key)
    try:
        store = jks.read_jks(data, password)
    except jks.WrongPasswordError:
        raise TlsRejected(password_key, f"does not open {path}, or the file is damaged") from None
    except ValueError as error:
        raise TlsRejected(key, f"{path} cannot be read: {error}") from None
    if not store.keys:
        return _Opened(None, _certificates(key, path, store.certificates))
    protected, chain = store.keys[0]
    secret = key_password if key_password is not None else password
    assert secret is not None or key == TRUST_LOCATION, "a key store has a password"
    if secret is None:
        raise TlsRejected(key, f"{path} has a private key, which a trust store must not have")
    try:
        der = jks.open_key(protected, secret)
    except jks.WrongPasswordError:
        name = password_key if key_password is None else KEY_PASSWORD
        raise TlsRejected(name, f"does not open the private key of {path}") from None
    except ValueError as error:
        raise TlsRejected(key, f"{path} cannot be read: {error}") from None
    return _Opened(_load_key(key, path, der, None, is_encrypted=False), _certificates(key, path, chain))


def _open_pkcs12(key: str, path: str, data: bytes, *, password: str | None, key_password: str | None) -> _Opened:
    if key_password is not None and key_password != password:
        raise TlsRejected(KEY_PASSWORD, f"{path} is a PKCS12 store, whose key has the password of the store")
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm):
        raise TlsRejected(
            _password_key(key), f"does not open {path}, or the file is no PKCS12 store, or is damaged"
        ) from None
    own = [] if store.cert is None else [store.cert.certificate]
    return _Opened(store.key, own + [each.certificate for each in store.additional_certs])


def _password_key(key: str) -> str:
    return key.replace(".location", ".password")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

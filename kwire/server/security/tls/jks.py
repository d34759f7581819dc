"""Reader of JKS: Java's own format of key stores, whose private keys have a cipher of their own.

    store         magic FEEDFEED 4, version 4 (1 or 2), count of entries 4, entries, SHA-1 20
    entry         kind 4 (1 key, 2 certificate), alias, milliseconds 8, then for each kind:
    key           size 4, EncryptedPrivateKeyInfo (DER), count of certificates 4, certificates
    certificate   type (a text, only in version 2), size 4, certificate (DER)
    text          size 2, modified UTF-8
    private key   salt 20, key XOR key stream, SHA-1 20 of password and key

The SHA-1 at the end covers the password, a fixed phrase and all bytes before it. docs/decisions/0021 has the reason for
a reader of our own.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Final

from kwire.server.security.tls.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, dotted, elements, only

MAGIC: Final = bytes.fromhex("feedfeed")
_PHRASE: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_KEY: Final = 1
_CERTIFICATE: Final = 2
_KEY_CIPHER: Final = "1.3.6.1.4.1.42.2.17.1.1"
_X509: Final = b"X.509"


class WrongPasswordError(ValueError):
    """The password does not open the store, or not the key in it; else the store is damaged."""


@dataclass(slots=True)
class JksStore:
    """Entries of a store: protected private keys with their chains, and trusted certificates, as DER."""

    keys: list[tuple[bytes, list[bytes]]] = field(default_factory=list, repr=False)
    certificates: list[bytes] = field(default_factory=list)


class _Reader:
    """Position in the bytes of a store."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes. Raises ValueError if there are not as many."""
        end = self.position + count
        if end > len(self._data):
            raise ValueError("the store is cut off")
        found = self._data[self.position : end]
        self.position = end
        return found

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def text(self) -> bytes:
        return self.take(struct.unpack(">H", self.take(2))[0])

    def sized(self) -> bytes:
        return self.take(self.number())


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Return the entries of a store; without a password its integrity is not checked, as in Java.

    Raises WrongPasswordError, or ValueError for bytes that are no store.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None and not hmac.compare_digest(sha1(_utf16(password) + _PHRASE + body).digest(), digest):  # noqa: S324 the format's hash
        raise WrongPasswordError("the password is wrong, or the store is damaged")
    reader = _Reader(body)
    magic, version, count = reader.take(4), reader.number(), reader.number()
    if magic != MAGIC or version not in (1, 2):
        raise ValueError(f"it is not a JKS store of version 1 or 2 (version {version})")
    store = JksStore()
    for _ in range(count):
        _read_entry(reader, version, store)
    if reader.position != len(body):
        raise ValueError("bytes follow the last entry")
    return store


def _read_entry(reader: _Reader, version: int, store: JksStore) -> None:
    kind = reader.number()
    reader.text()
    reader.take(8)
    if kind == _KEY:
        key = reader.sized()
        store.keys.append((key, [_certificate(reader, version) for _ in range(reader.number())]))
    elif kind == _CERTIFICATE:
        store.certificates.append(_certificate(reader, version))
    else:
        raise ValueError(f"an entry has the unknown kind {kind}")


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2 and (kind := reader.text()) != _X509:
        raise ValueError(f"a certificate has the type {kind.decode('utf-8', 'replace')!r}, not X.509")
    return reader.sized()


def open_key(protected: bytes, password: str) -> bytes:
    """Return a private key (PKCS#8, DER) out of its protection. Raises WrongPasswordError, or ValueError."""
    algorithm, secret = elements(only(protected, SEQUENCE))
    identifier = next(iter(elements(algorithm.content)), None)
    if identifier is None or identifier.tag != OBJECT_IDENTIFIER or secret.tag != OCTET_STRING:
        raise ValueError("a private key is not protected as JKS protects keys")
    if dotted(identifier.content) != _KEY_CIPHER:
        raise ValueError("a private key is not protected as JKS protects keys")
    data = secret.content
    stream, check = data[:_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    encrypted = data[_DIGEST_BYTES:-_DIGEST_BYTES]
    secret_bytes = _utf16(password)
    key = bytearray()
    for start in range(0, len(encrypted), _DIGEST_BYTES):
        stream = sha1(secret_bytes + stream).digest()  # noqa: S324 the format's hash
        block = encrypted[start : start + _DIGEST_BYTES]
        key += bytes(one ^ other for one, other in zip(block, stream, strict=False))
    if not hmac.compare_digest(sha1(secret_bytes + key).digest(), check):  # noqa: S324 the format's hash
        raise WrongPasswordError("the password of the private key is wrong")
    return bytes(key)


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")

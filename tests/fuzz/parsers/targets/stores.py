"""Targets of key stores and of what TLS reads from certificates."""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from kwire.server.security.tls import jks, stores
from kwire.server.security.tls.der import dotted, elements
from kwire.server.security.tls.distinguished_names import name_of_subject, subject_of
from kwire.server.security.tls.principal_mapping import NoRuleMatchesError, PrincipalMapper
from kwire.server.security.tls.store_files import pem_blocks
from kwire.server.security.tls.tls_settings import TlsRejected
from tests.fuzz.parsers.target import Target
from tests.fuzz.parsers.targets.logins import text_of
from tests.support.certificates import Authority, common_name, jks_certificate, jks_store, protect, sized, text

PASSWORD: Final = "secret"
"""Password of the stores that the seeds make."""
KEY: Final = "ssl.keystore.location"
SUBJECT: Final = "CN=broker one,OU=Example+OU=Other,O=Ex\\, ample,C=DE"


def _read_pem(data: bytes) -> None:
    content = data.decode("latin-1")
    certificates = stores._pem_certificates(KEY, "it", content)
    stores._matching(KEY, "it", stores._pem_key(KEY, "it", content, None), certificates)


def _pem_seeds() -> list[bytes]:
    node = Authority().issue()
    whole = (node.key_pem() + node.chain_pem).encode()
    return [whole, node.chain_pem.encode(), whole.replace(b"\n", b" "), b"-----BEGIN A-----\nAAAA\n-----END A-----"]


def _read_store(data: bytes) -> None:
    """Read a JKS or PKCS12 store: the digest of a JKS store is made right, so that the rest is read."""
    if data.startswith(jks.MAGIC):
        data = jks_store_of(data[:-20])
    stores._open_store(KEY, "it", data, password=PASSWORD)


def jks_store_of(body: bytes) -> bytes:
    """Return a store with a right digest."""
    return body + sha1(jks._utf16(PASSWORD) + jks._PHRASE + body).digest()


def _store_seeds() -> list[bytes]:
    node = Authority().issue()
    assert isinstance(node.key, ec.EllipticCurvePrivateKey)
    der = node.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, _NO_CIPHER)
    certificate = jks_certificate(node.certificate)
    key = (1).to_bytes(4) + text("node") + bytes(8) + sized(protect(der, PASSWORD)) + (1).to_bytes(4) + certificate
    trusted = (2).to_bytes(4) + text("ca") + bytes(8) + certificate
    both = pkcs12.serialize_key_and_certificates(b"n", node.key, node.certificate, None, _NO_CIPHER)
    return [jks_store([key], PASSWORD), jks_store([trusted], PASSWORD), jks_store([key, trusted], PASSWORD), both]


_NO_CIPHER: Final = NoEncryption()


def _read_key(data: bytes) -> None:
    jks.open_key(data, PASSWORD)


def _read_elements(data: bytes) -> None:
    for element in elements(data):
        dotted(element.content)


def _name_seeds() -> list[bytes]:
    return [x509.Name.from_rfc4514_string(SUBJECT).public_bytes(), common_name("broker").public_bytes(), b"\x30\x00"]


def _certificate_seeds() -> list[bytes]:
    return [Authority().issue().certificate.public_bytes(Encoding.DER)]


def _read_rules(data: bytes) -> None:
    """Read rules and map a name; a rule's pattern is the operator's, so its own time is not bounded."""
    rules = text_of(data)[:100]
    if any(each in rules for each in "*+{"):
        return
    PrincipalMapper(rules).name_of(SUBJECT)


def _rule_seeds() -> list[bytes]:
    texts = ("DEFAULT", "RULE:^CN=(.?.?.?).?,(OU)=.?$/$1@$2/L, DEFAULT", r"RULE:(?<name>C)(N)/${name}$2\$/U,RULE:a/b/")
    return [each.encode() for each in texts]


STORES: Final = [
    Target("pem", _read_pem, (TlsRejected,), _pem_seeds),
    Target("pem blocks", lambda data: pem_blocks(data.decode("latin-1")), (ValueError,), _pem_seeds),
    Target("store", _read_store, (TlsRejected,), _store_seeds),
    Target("jks", lambda data: jks.read_jks(data, None), (ValueError,), _store_seeds),
    Target("protected key", _read_key, (ValueError,), lambda: [protect(b"key" * 20, PASSWORD)]),
    Target("der", _read_elements, (ValueError,), _name_seeds),
    Target("distinguished name", name_of_subject, (ValueError,), _name_seeds),
    Target("subject", subject_of, (ValueError,), _certificate_seeds),
    Target("principal rules", _read_rules, (TlsRejected, NoRuleMatchesError), _rule_seeds),
]

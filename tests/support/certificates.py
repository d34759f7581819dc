"""Certificates of tests: authorities, key stores of every kind, contexts of clients. Nothing of it is committed."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "of the store"
DAY = timedelta(days=1)
Attributes = Sequence[tuple[x509.ObjectIdentifier, str]]


def name_of(attributes: Attributes) -> x509.Name:
    return x509.Name([x509.NameAttribute(*each) for each in attributes])


def common_name(text: str) -> x509.Name:
    return name_of([(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Identity:
    """A private key and its certificates, its own first."""

    key: CertificateIssuerPrivateKeyTypes
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    def key_pem(self, password: str | None = None) -> str:
        how: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            how = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()

    @property
    def chain_pem(self) -> str:
        return pem(self.chain)

    def pem_file(self, path: Path, password: str | None = None) -> Path:
        return secret_file(path, (self.key_pem(password) + self.chain_pem).encode())

    def pkcs12_file(self, path: Path, password: str = PASSWORD) -> Path:
        assert isinstance(self.key, ec.EllipticCurvePrivateKey)
        how = serialization.BestAvailableEncryption(password.encode())
        own, others = self.chain[0], self.chain[1:]
        return secret_file(path, pkcs12.serialize_key_and_certificates(b"node", self.key, own, others, how))

    def jks_file(self, path: Path, password: str = PASSWORD, key_password: str | None = None) -> Path:
        der = self.key.private_bytes(Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        protected = protect(der, password if key_password is None else key_password)
        entry = struct.pack(">I", 1) + text("node") + bytes(8) + sized(protected)
        entry += struct.pack(">I", len(self.chain)) + b"".join(map(jks_certificate, self.chain))
        return secret_file(path, jks_store([entry], password))


class Authority:
    """An authority, which signs itself or is signed by another one."""

    def __init__(self, name: str = "Test authority", *, parent: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = common_name(name)
        self.parents: tuple[x509.Certificate, ...] = () if parent is None else parent.chain
        issuer, key = (self.name, self.key) if parent is None else (parent.name, parent.key)
        builder = _builder(self.name, issuer, self.key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = builder.sign(key, hashes.SHA256())

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.certificate, *self.parents)

    def issue(
        self,
        subject: x509.Name | str = "broker",
        *,
        hosts: Iterable[str] = ("127.0.0.1", "localhost"),
        days: int = 30,
        with_chain: bool = True,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    ) -> Identity:
        """Return a key, by default a new one, with a certificate; `days` is negative for an expired one."""
        key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        name = common_name(subject) if isinstance(subject, str) else subject
        builder = _builder(name, self.name, key.public_key(), days=days)
        if names := [_alternative(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Identity(key, (certificate, *(self.chain if with_chain else ())))

    @property
    def pem(self) -> str:
        return pem([self.certificate])

    def pem_file(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def jks_file(self, path: Path, password: str = PASSWORD) -> Path:
        entry = struct.pack(">I", 2) + text("authority") + bytes(8) + jks_certificate(self.certificate)
        path.write_bytes(jks_store([entry], password))
        return path

    def pkcs12_file(self, path: Path, password: str = PASSWORD) -> Path:
        how = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [self.certificate], how))
        return path

    def client(self, identity: Identity | None = None, directory: Path | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and may have a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.pem)
        if identity is not None:
            assert directory is not None
            file = identity.pem_file(directory / f"client-{identity.certificate.serial_number}.pem")
            context.load_cert_chain(file)
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, *, days: int = 30
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    until = now + days * DAY
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=min(now, until) - DAY,
        not_valid_after=until,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def secret_file(path: Path, data: bytes) -> Path:
    """Write a file that only its owner can read."""
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(data)
    return path


# --- JKS


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def jks_certificate(certificate: x509.Certificate) -> bytes:
    return text("X.509") + sized(certificate.public_bytes(Encoding.DER))


def jks_store(entries: Sequence[bytes], password: str) -> bytes:
    body = bytes.fromhex("feedfeed") + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return body + sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def element(tag: int, content: bytes) -> bytes:
    """Return an element of DER."""
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + struct.pack(">H", size)
    return bytes([tag]) + length + content


def protect(key: bytes, password: str) -> bytes:
    """Return a private key protected as JKS does."""
    secret, stream, data = password.encode("utf-16-be"), bytes(range(20)), b""
    salt = stream
    for start in range(0, len(key), 20):
        stream = sha1(secret + stream).digest()
        data += bytes(one ^ other for one, other in zip(key[start : start + 20], stream, strict=False))
    cipher = element(6, bytes.fromhex("2b060104012a02110101")) + element(5, b"")
    return element(0x30, element(0x30, cipher) + element(4, salt + data + sha1(secret + key).digest()))


# --- settings


def pem_settings(identity: Identity, authority: Authority, **more: str) -> dict[str, str]:
    """Return settings of TLS with inline PEM; underscores in other names stand for dots."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
        **{name.replace("_", "."): value for name, value in more.items()},
    }

"""Key stores and trust stores of each kind, and the one line about each that cannot be used."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.configs.broker import BROKER_KEYS, default_settings
from kwire.cluster.configs.config_keys import parse
from kwire.cluster.configs.settings import read_settings
from kwire.server.security.tls import jks
from kwire.server.security.tls.contexts import client_context, server_context
from kwire.server.security.tls.listener_tls import open_tls
from kwire.server.security.tls.store_files import STORE_BYTES_MAX
from kwire.server.security.tls.stores import read_key_store, read_trust_store
from kwire.server.security.tls.tls_settings import ListenerRole, TlsRejected, TlsSettings, check_settings
from tests.support.certificates import PASSWORD, Authority, jks_store, pem_settings, protect, secret_file

AUTHORITY = Authority()
NODE = AUTHORITY.issue()
ROLE = ListenerRole(name="SSL", is_bound=True, is_outgoing=True, uses_sasl=False, trusts_itself=True)
SECRET = "not to be seen"


def tls(**given: Any) -> TlsSettings:
    """Return settings of TLS; underscores stand for dots."""
    texts = {f"ssl.{name.replace('_', '.')}": str(value) for name, value in given.items()}
    values = default_settings() | {name: parse(BROKER_KEYS[name], text) for name, text in texts.items()}
    return read_settings(TlsSettings, values)


def key_store(path: Path, kind: str, password: str | None = PASSWORD, **more: Any) -> TlsSettings:
    passwords = {} if password is None else {"keystore_password": password}
    return tls(keystore_type=kind, keystore_location=path, **passwords, **more)


def trust_store(path: Path, kind: str, password: str | None = PASSWORD) -> TlsSettings:
    passwords = {} if password is None else {"truststore_password": password}
    return tls(truststore_type=kind, truststore_location=path, **passwords)


def why(settings: TlsSettings) -> str:
    """Return why the settings are refused, after the check that it is one line without the secret."""
    with pytest.raises(TlsRejected) as refused:
        open_tls(ROLE, settings)
    message = str(refused.value.on_listener("SSL"))
    assert message.startswith(f"{refused.value.key} of listener SSL: ")
    assert "\n" not in message
    assert SECRET not in message
    assert refused.value.key in BROKER_KEYS
    return str(refused.value)


# --- stores that can be used


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12", "PKCS12 called JKS", "JKS called PKCS12", "encrypted PEM"])
def test_a_key_store_of_each_kind_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "node.store"
    match kind:
        case "PEM":
            settings = key_store(NODE.pem_file(path), "PEM", None)
        case "encrypted PEM":
            settings = key_store(NODE.pem_file(path, SECRET), "PEM", None, key_password=SECRET)
        case "JKS" | "JKS called PKCS12":
            settings = key_store(NODE.jks_file(path), kind.rsplit(maxsplit=1)[-1])
        case _:
            settings = key_store(NODE.pkcs12_file(path), kind.rsplit(maxsplit=1)[-1])
    found = read_key_store(settings)
    assert found is not None
    assert found.chain == NODE.chain
    assert found.key.public_key() == NODE.key.public_key()
    assert "PrivateKey" not in repr(found)


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12", "JKS without password"])
def test_a_trust_store_of_each_kind_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trust.store"
    match kind:
        case "PEM":
            settings = trust_store(AUTHORITY.pem_file(path), "PEM", None)
        case "PKCS12":
            settings = trust_store(AUTHORITY.pkcs12_file(path), "PKCS12")
        case _:
            password = None if kind == "JKS without password" else PASSWORD
            settings = trust_store(AUTHORITY.jks_file(path), "JKS", password)
    assert read_trust_store(settings) == (AUTHORITY.certificate,)


def test_inline_pem_may_be_one_line() -> None:
    inline = pem_settings(NODE, AUTHORITY)
    spaced = {name: " ".join(value.split("\n")) for name, value in inline.items()}
    settings = tls(**{name.removeprefix("ssl.").replace(".", "_"): value for name, value in spaced.items()})
    opened = open_tls(ROLE, settings)
    assert opened.keys is not None
    assert opened.keys.chain == NODE.chain
    assert "BEGIN" not in repr(settings)
    assert "BEGIN" not in repr(opened)


def test_a_chain_is_put_in_order(tmp_path: Path) -> None:
    middle = Authority("Middle", parent=AUTHORITY)
    node = middle.issue()
    path = secret_file(
        tmp_path / "mixed.pem",
        (AUTHORITY.pem + node.key_pem() + middle.pem + node.certificate.public_bytes(Encoding.PEM).decode()).encode(),
    )
    found = read_key_store(key_store(path, "PEM", None))
    assert found is not None
    assert found.chain == node.chain


def test_a_trust_store_may_have_an_authority_that_another_one_signed(tmp_path: Path) -> None:
    middle = Authority("Middle", parent=AUTHORITY)
    settings = tls(keystore_type="PEM", keystore_location=middle.issue(with_chain=False).pem_file(tmp_path / "node"))
    trusting = trust_store(middle.pem_file(tmp_path / "trust"), "PEM", None)
    keys, trusted = read_key_store(settings), read_trust_store(trusting)
    assert keys is not None
    assert shake_hands(client_context(tls(), None, trusted), server_context(settings, keys, None)) == "TLSv1.3"


def shake_hands(client_side: ssl.SSLContext, server_side: ssl.SSLContext) -> str | None:
    """Return the version of TLS that two contexts agree on. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return server.version()


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs a Java")
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_of_javas_keytool_are_read(tmp_path: Path, kind: str) -> None:
    path, certificate = tmp_path / "java.store", tmp_path / "java.pem"
    passwords = ["-storetype", kind, "-storepass", "store-word"]
    passwords += ["-keypass", "key-word"] if kind == "JKS" else []

    def keytool(*arguments: str) -> None:
        subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=120)

    keytool("-genkeypair", "-alias", "n", "-keyalg", "EC", "-dname", "CN=java", "-keystore", str(path), *passwords)
    path.chmod(0o600)
    keytool("-exportcert", "-rfc", "-alias", "n", "-keystore", str(path), "-file", str(certificate), *passwords[:4])
    trust = tmp_path / "trust.store"
    keytool(
        "-importcert", "-noprompt", "-alias", "a", "-file", str(certificate), "-keystore", str(trust), *passwords[:4]
    )
    more = {"key_password": "key-word"} if kind == "JKS" else {}
    found = read_key_store(key_store(path, kind, "store-word", **more))
    assert found is not None
    assert read_trust_store(trust_store(trust, kind, "store-word")) == found.chain


# --- stores that cannot be used


def test_row_53_a_key_store_that_every_user_can_read_stops_the_start(tmp_path: Path) -> None:
    path = NODE.pem_file(tmp_path / "open.pem")
    path.chmod(0o644)
    assert "is readable by every user of this machine" in why(key_store(path, "PEM", None))
    path.chmod(0o640)
    assert read_key_store(key_store(path, "PEM", None)) is not None
    trust = AUTHORITY.pem_file(tmp_path / "trust.pem")
    trust.chmod(0o644)
    assert read_trust_store(trust_store(trust, "PEM", None)) is not None


Make = Callable[[Path], TlsSettings]


def damaged(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    return secret_file(path, bytes(data))


def without_key(path: Path) -> Path:
    entry = AUTHORITY.jks_file(path).read_bytes()
    return secret_file(path, entry)


BROKEN: dict[str, tuple[Make, str]] = {
    "no file": (lambda path: key_store(path, "JKS"), "cannot be read: No such file"),
    "directory": (lambda path: key_store(path.parent, "JKS"), "cannot be read: Is a directory"),
    "nothing": (lambda path: key_store(secret_file(path, b""), "JKS"), "neither a JKS nor a PKCS12 store"),
    "too large": (lambda path: key_store(secret_file(path, bytes(STORE_BYTES_MAX + 1)), "JKS"), "is larger than"),
    "PEM as JKS": (lambda path: key_store(NODE.pem_file(path), "JKS"), "for a PEM file set the type to PEM"),
    "JKS as PEM": (lambda path: key_store(NODE.jks_file(path), "PEM", None), "has 0 private keys in PEM format"),
    "wrong word JKS": (lambda path: key_store(NODE.jks_file(path), "JKS", SECRET), "ssl.keystore.password: does not"),
    "wrong word PKCS12": (
        lambda path: key_store(NODE.pkcs12_file(path), "PKCS12", SECRET),
        "ssl.keystore.password: does not open",
    ),
    "damaged JKS": (lambda path: key_store(damaged(NODE.jks_file(path)), "JKS"), "or the file is damaged"),
    "damaged PKCS12": (lambda path: key_store(damaged(NODE.pkcs12_file(path)), "PKCS12"), "or is damaged"),
    "JCEKS": (lambda path: key_store(secret_file(path, b"\xce" * 40), "JKS"), "neither a JKS nor a PKCS12"),
    "no key": (lambda path: key_store(without_key(path), "JKS"), "has no private key with a certificate"),
    "wrong key word": (
        lambda path: key_store(NODE.jks_file(path, key_password="right"), "JKS", key_password=SECRET),
        "ssl.key.password: does not open the private key",
    ),
    "key word of PKCS12": (
        lambda path: key_store(NODE.pkcs12_file(path), "PKCS12", key_password=SECRET),
        "ssl.key.password: ",
    ),
    "encrypted": (
        lambda path: key_store(NODE.pem_file(path, SECRET), "PEM", None),
        "ssl.key.password: is not set, but the private key of ssl.keystore.location is encrypted",
    ),
    "wrong PEM word": (
        lambda path: key_store(NODE.pem_file(path, "right"), "PEM", None, key_password=SECRET),
        "ssl.key.password: does not open",
    ),
    "word for nothing": (
        lambda path: key_store(NODE.pem_file(path), "PEM", None, key_password=SECRET),
        "ssl.key.password: is set, but the private key of ssl.keystore.location is not encrypted",
    ),
    "no certificate": (
        lambda path: key_store(secret_file(path, NODE.key_pem().encode()), "PEM", None),
        "has no CERTIFICATE in PEM format",
    ),
    "key of another": (
        lambda path: key_store(secret_file(path, (AUTHORITY.issue().key_pem() + NODE.chain_pem).encode()), "PEM", None),
        "belongs to none of the certificates",
    ),
    "old form": (
        lambda path: key_store(
            secret_file(
                path,
                b"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----\n",
            ),
            "PEM",
            None,
        ),
        "is not valid PEM: it has an encrypted key of the old form",
    ),
    "no base64": (
        lambda path: key_store(
            secret_file(path, b"-----BEGIN PRIVATE KEY-----\n!!!\n-----END PRIVATE KEY-----"), "PEM", None
        ),
        "is not valid PEM: its PRIVATE KEY is not valid base64",
    ),
    "no key inside": (
        lambda path: key_store(
            secret_file(
                path, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----" + NODE.chain_pem.encode()
            ),
            "PEM",
            None,
        ),
        "has a private key that cannot be read",
    ),
    "trust with key": (lambda path: trusting(NODE.pkcs12_file(path)), "ssl.truststore.location: "),
    "trust without word": (
        lambda path: tls(**inline(NODE), truststore_type="PKCS12", truststore_location=AUTHORITY.pkcs12_file(path)),
        "ssl.truststore.password: does not open",
    ),
    "trust of another": (
        lambda path: tls(
            **inline(NODE), truststore_type="PEM", truststore_location=Authority("Another").pem_file(path)
        ),
        "ssl.truststore.location: does not verify the certificate of ssl.keystore.key",
    ),
    "expired": (
        lambda path: tls(
            **inline(AUTHORITY.issue(days=-1)),
            truststore_type="PEM",
            truststore_location=AUTHORITY.pem_file(path),
        ),
        "does not verify the certificate of ssl.keystore.key: certificate has expired",
    ),
}


def inline(identity: Any) -> dict[str, str]:
    return {
        "keystore_type": "PEM",
        "keystore_key": identity.key_pem(),
        "keystore_certificate_chain": identity.chain_pem,
    }


def trusting(path: Path) -> TlsSettings:
    return tls(**inline(NODE), truststore_type="PKCS12", truststore_location=path, truststore_password=PASSWORD)


@pytest.mark.parametrize("name", BROKEN)
def test_a_store_that_cannot_be_used_is_refused_by_its_setting(tmp_path: Path, name: str) -> None:
    make, expected = BROKEN[name]
    assert expected in why(make(tmp_path / "broken.store"))


def test_a_certificate_whose_names_are_no_text_is_refused(tmp_path: Path) -> None:
    der = NODE.certificate.public_bytes(Encoding.DER).replace(b"Test authority", b"\xff" * 14)
    damaged = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----"
    path = secret_file(tmp_path / "damaged.pem", (NODE.key_pem() + damaged).encode())
    assert "has a certificate that cannot be read" in why(tls(keystore_type="PEM", keystore_location=path))


def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "is not a file" in why(key_store(tmp_path / "pipe", "JKS"))


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "ssl.keystore.location: is not set; a listener with TLS needs a key store"),
    ({"keystore_key": "k", "keystore_type": "PEM"}, "ssl.keystore.key: needs ssl.keystore.certificate.chain"),
    (
        {"keystore_certificate_chain": "c", "keystore_type": "PEM"},
        "ssl.keystore.certificate.chain: needs ssl.keystore.key",
    ),
    ({"keystore_key": "k", "keystore_certificate_chain": "c"}, "ssl.keystore.key: needs ssl.keystore.type=PEM"),
    (
        {"keystore_key": "k", "keystore_certificate_chain": "c", "keystore_type": "PEM", "keystore_location": "/f"},
        "ssl.keystore.key: contradicts ssl.keystore.location",
    ),
    ({"keystore_type": "PEM", "keystore_location": "/f", "keystore_password": SECRET}, "ssl.keystore.password: PEM"),
    ({"keystore_password": SECRET}, "ssl.keystore.password: needs ssl.keystore.location"),
    ({"keystore_location": "/f"}, "ssl.keystore.location: needs ssl.keystore.password"),
    ({"keystore_type": "BKS"}, "ssl.keystore.type: 'BKS' is not served"),
    ({"truststore_type": "BKS"}, "ssl.truststore.type: 'BKS' is not served"),
    ({"truststore_certificates": "c"}, "ssl.truststore.certificates: needs ssl.truststore.type=PEM"),
    (
        {"truststore_certificates": "c", "truststore_type": "PEM", "truststore_location": "/f"},
        "ssl.truststore.certificates: contradicts ssl.truststore.location",
    ),
    (
        {"truststore_type": "PEM", "truststore_location": "/f", "truststore_password": SECRET},
        "ssl.truststore.password: PEM stores have no password",
    ),
    ({"truststore_password": SECRET}, "ssl.truststore.password: needs ssl.truststore.location"),
    ({"enabled_protocols": "TLSv1.2,TLSv1.1"}, "ssl.enabled.protocols: TLSv1.1 is not served"),
    ({"enabled_protocols": ""}, "ssl.enabled.protocols: nothing is not served"),
    ({"protocol": "SSLv3"}, "ssl.protocol: 'SSLv3' is not served"),
    ({"endpoint_identification_algorithm": "LDAPS"}, "ssl.endpoint.identification.algorithm: 'LDAPS' is unknown"),
    ({"principal_mapping_rules": "RULE:("}, "ssl.principal.mapping.rules: "),
]


@pytest.mark.parametrize(("given", "expected"), CONTRADICTIONS, ids=[expected for _, expected in CONTRADICTIONS])
def test_contradicting_settings_are_refused_by_name(given: dict[str, Any], expected: str) -> None:
    assert expected in why(tls(**given))


# --- versions and cipher suites


def contexts(**given: Any) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    settings = tls(**given)
    check_settings(settings)
    keys = read_key_store(tls(**inline(NODE)))
    assert keys is not None
    return client_context(tls(), None, (AUTHORITY.certificate,)), server_context(settings, keys, None)


@pytest.mark.parametrize(
    ("given", "version"),
    [
        ({}, "TLSv1.3"),
        ({"enabled_protocols": "TLSv1.2"}, "TLSv1.2"),
        ({"enabled_protocols": "TLSv1.3"}, "TLSv1.3"),
        ({"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2"),
        (
            {"cipher_suites": "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"},
            "TLSv1.3",
        ),
    ],
    ids=str,
)
def test_row_11_versions_and_suites_are_those_of_the_settings(given: dict[str, str], version: str) -> None:
    assert shake_hands(*contexts(**given)) == version


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"),
    ],
)
def test_cipher_suites_have_their_iana_names(suite: str, name: str) -> None:
    _, server = contexts(cipher_suites=suite)
    found = [each["name"] for each in server.get_ciphers() if each["name"] not in ("TLS_AES_256_GCM_SHA384",)]
    assert name in found
    assert len([each for each in found if not each.startswith("TLS_")]) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cipher_suites": "DES"}, "'DES' is not the name of a cipher suite"),
        ({"cipher_suites": "TLS_RSA_WITH_RC4_128_MD5"}, "TLS_RSA_WITH_RC4_128_MD5 is not served by OpenSSL"),
        ({"cipher_suites": "TLS_AES_128_GCM_SHA256"}, "this Python cannot select suites of TLS 1.3"),
        (
            {"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "enabled_protocols": "TLSv1.3"},
            "has no suite of the versions in ssl.enabled.protocols",
        ),
    ],
    ids=str,
)
def test_cipher_suites_that_cannot_be_used_are_refused(given: dict[str, str], expected: str) -> None:
    with pytest.raises(TlsRejected, match=r"ssl\.cipher\.suites: ") as refused:
        contexts(**given)
    assert expected in str(refused.value)


# --- hostile bytes


@given(data=st.binary(max_size=200))
@settings(deadline=None)
def test_bytes_that_are_no_jks_store_are_refused(data: bytes) -> None:
    for store in (data, jks_store([data], PASSWORD), jks.MAGIC + data):
        try:
            found = jks.read_jks(store, None)
        except ValueError:
            continue
        assert not found.keys or len(data) > 20


@given(data=st.data())
@settings(deadline=None)
def test_changed_keys_of_jks_are_refused(data: st.DataObject) -> None:
    protected = bytearray(protect(b"a private key of some bytes", PASSWORD))
    assert jks.open_key(bytes(protected), PASSWORD) == b"a private key of some bytes"
    position = data.draw(st.integers(0, len(protected) - 1))
    protected[position] ^= data.draw(st.integers(1, 255))
    try:
        opened = jks.open_key(bytes(protected), PASSWORD)
    except ValueError:
        return
    assert opened == b"a private key of some bytes"  # the parameters of the algorithm have no meaning


FUZZED: dict[str, bytes] = {}


@pytest.fixture(scope="module", autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("fuzzed")
    FUZZED["JKS"] = NODE.jks_file(directory / "jks").read_bytes()
    FUZZED["PKCS12"] = NODE.pkcs12_file(directory / "p12").read_bytes()
    FUZZED["PEM"] = NODE.pem_file(directory / "pem").read_bytes()


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_changed_stores_are_read_or_refused_by_their_setting(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["JKS", "PKCS12", "PEM"]))
    store = bytearray(FUZZED[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        store[data.draw(st.integers(0, len(store) - 1))] = data.draw(st.integers(0, 255))
    if kind == "JKS" and data.draw(st.booleans()):  # also with a digest that fits
        store = bytearray(jks_store([bytes(store[12:-20])], PASSWORD))
    del store[data.draw(st.integers(len(store) // 2, len(store))) :]
    with tempfile.TemporaryDirectory() as directory:
        path = secret_file(Path(directory) / "store", bytes(store))
        try:
            found = read_key_store(key_store(path, kind, None if kind == "PEM" else PASSWORD))
        except TlsRejected as refused:
            assert "\n" not in str(refused)
            return
    assert found is not None
    assert found.key.public_key() == found.chain[0].public_key()

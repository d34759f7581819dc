"""No log line has a password or a private key of a key store, at the lowest level, also when stores are refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from tests.security.canary import found_in_logs, log_everything
from tests.server.security.tls.test_reload import PREFIX, Scene, uses
from tests.support.certificates import Authority, Identity
from tests.support.raw_client import RawClient

PASSWORD = "canary-store-41c9"
WRONG = "canary-wrong-88d0"
INLINE = "canary-inline-5e77"


def private_parts(identity: Identity) -> list[bytes]:
    """Return what a log line with the private key would have in it."""
    numbers = identity.key.private_numbers()  # type: ignore[union-attr]
    der = identity.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return [der, str(numbers.private_value).encode(), *identity.key_pem().encode().splitlines()[1:2]]  # type: ignore[union-attr]


def test_row_52_no_log_line_has_a_secret_of_a_key_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_everything(caplog)
    scene = Scene(tmp_path)
    try:
        identities = [scene.authority.issue() for _ in range(3)]
        path = str(identities[0].pkcs12_file(scene.key_store, PASSWORD))
        stores = {"keystore_type": "PKCS12", "keystore_location": path}
        scene.rejected(**stores, keystore_password=WRONG)
        assert scene.alter(**stores, keystore_password=PASSWORD)[1] == ""
        uses(scene, identities[0])
        identities[1].jks_file(scene.key_store, PASSWORD, WRONG)
        scene.rejected(**stores | {"keystore_type": "JKS"}, keystore_password=PASSWORD)
        scene.rejected(keystore_type="PEM", keystore_key=identities[2].key_pem(INLINE), key_password=WRONG)
        scene.key_store.write_bytes(b"\0" + identities[1].key_pem().encode())
        scene.rejected(keystore_type="PEM", keystore_location=path)
        with pytest.raises(ssl.SSLError):
            scene.connect(Authority("Other"))
        with scene.connect() as client:
            assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        with RawClient(f"127.0.0.1:{scene.broker.server._listeners.ports()['SECURE']}") as plain:
            plain.send_bytes(PASSWORD.encode() * 10)
            assert plain.is_closed()
    finally:
        scene.close()
    assert any(PREFIX in str(record.__dict__) or "SECURE" in str(record.__dict__) for record in caplog.records)
    secrets = [PASSWORD.encode(), WRONG.encode(), INLINE.encode()]
    secrets += [part for identity in (scene.first, *identities) for part in private_parts(identity)]
    assert found_in_logs(caplog, secrets) == []

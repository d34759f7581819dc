"""Certificates that are replaced while a broker runs: by other settings, or by other content of the same file."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_configs import (
    AlterConfigsAlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.server.security.tls import node_tls
from tests.support.certificates import PASSWORD, Authority, Identity
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

PREFIX = "listener.name.secure.ssl."
LOCATION = f"{PREFIX}keystore.location"
BROKER_ID = "1"


class Scene:
    """A broker with a listener for its administrator, and one whose certificate is replaced."""

    def __init__(self, directory: Path, *, prefix: str = PREFIX, **more: str) -> None:
        """`prefix` is that of the stores in the properties file."""
        self.directory = directory
        self.authority = Authority()
        self.first = self.authority.issue()
        self.key_store = self.first.pem_file(directory / "first.pem")
        self.trust_store = self.authority.pem_file(directory / "trust.pem")
        self.broker = RunningBroker(
            directory / "data",
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
                "inter.broker.listener.name": "SECURE",
                f"{prefix}keystore.type": "PEM",
                f"{prefix}keystore.location": str(self.key_store),
                f"{prefix}truststore.type": "PEM",
                f"{prefix}truststore.location": str(self.trust_store),
                **{f"ssl.{name.replace('_', '.')}": value for name, value in more.items()},
            },
        )
        self.admin = self.broker.client()

    def close(self) -> None:
        self.admin.close()
        self.broker.stop()

    def connect(self, authority: Authority | None = None) -> RawClient:
        port = self.broker.server._listeners.ports()["SECURE"]
        return RawClient(f"127.0.0.1:{port}", tls=(authority or self.authority).client())

    def serial(self, authority: Authority | None = None) -> int:
        """Return the serial number of the certificate that new connections get."""
        with self.connect(authority) as client:
            assert client.ask(ApiVersionsRequest(), 0).error_code == 0
            assert isinstance(client.socket, ssl.SSLSocket)
            certificate = client.socket.getpeercert(binary_form=True)
            assert certificate is not None
            return x509.load_der_x509_certificate(certificate).serial_number

    def alter(self, **changes: str) -> tuple[ErrorCode, str]:
        """Change settings of the listener; return the error and its message."""
        configs = [
            IncrementalAlterConfigsAlterableConfig(
                name=f"{PREFIX}{name.replace('_', '.')}", config_operation=0, value=value
            )
            for name, value in changes.items()
        ]
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=ConfigResourceType.BROKER, resource_name=BROKER_ID, configs=configs
        )
        (answer,) = self.admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return ErrorCode(answer.error_code), answer.error_message or ""

    def rejected(self, **changes: str) -> str:
        """Return the message of a change that is rejected, and that leaves the certificate as it is."""
        before = self.serial()
        code, message = self.alter(**changes)
        assert code is ErrorCode.INVALID_REQUEST
        assert "\n" not in message
        assert self.serial() == before
        return message

    def replaced(self, identity: Identity) -> str:
        """Write another identity to the broker's key store, and return its path."""
        return str(identity.pem_file(self.key_store))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        made.close()


def uses(scene: Scene, identity: Identity) -> None:
    eventually(lambda: scene.serial() == identity.certificate.serial_number, "the new certificate")


def test_row_11_another_certificate_is_used_by_new_connections_and_open_ones_stay(scene: Scene) -> None:
    second = scene.authority.issue()
    with scene.connect() as before:
        assert scene.serial() == scene.first.certificate.serial_number
        assert scene.alter(keystore_location=scene.replaced(second)) == (ErrorCode.NONE, "")
        uses(scene, second)
        assert before.ask(ApiVersionsRequest(), 0).error_code == 0


def test_row_11_the_same_file_is_read_again_when_its_setting_is_set_again(scene: Scene) -> None:
    for number in range(3):
        identity = scene.authority.issue()
        scene.replaced(identity)
        assert scene.serial() != identity.certificate.serial_number, number
        assert scene.alter(keystore_location=str(scene.key_store)) == (ErrorCode.NONE, "")
        uses(scene, identity)


def test_row_11_a_store_of_all_listeners_is_read_again_when_it_is_set_for_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(tmp_path, prefix="ssl.")
    try:
        second = scene.authority.issue()
        assert scene.alter(keystore_location=scene.replaced(second)) == (ErrorCode.NONE, "")
        uses(scene, second)
        code, _ = scene.alter(keystore_location=str(scene.trust_store))
        assert code is ErrorCode.INVALID_CONFIG
    finally:
        scene.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_row_11_another_kind_of_store_may_replace_a_file(scene: Scene) -> None:
    second, third = scene.authority.issue(), scene.authority.issue()
    path = str(second.pkcs12_file(scene.key_store))
    changes = {"keystore_type": "PKCS12", "keystore_location": path, "keystore_password": PASSWORD}
    assert scene.alter(**changes) == (ErrorCode.NONE, "")
    uses(scene, second)
    assert scene.alter(keystore_key=third.key_pem())[0] is ErrorCode.INVALID_REQUEST


def test_row_54_no_request_lets_a_broker_read_another_file(scene: Scene) -> None:
    other = str(scene.authority.issue().pem_file(scene.directory / "other.pem"))
    for name in ("keystore_location", "truststore_location"):
        code, message = scene.alter(**{name: other})
        assert code is ErrorCode.INVALID_CONFIG
        assert "can only be set in the broker's properties file" in message
    assert scene.serial() == scene.first.certificate.serial_number


def test_row_11_a_dynamic_certificate_is_used_after_a_restart(scene: Scene) -> None:
    second = scene.authority.issue()
    scene.alter(keystore_location=scene.replaced(second))
    uses(scene, second)
    scene.admin.close()
    scene.broker.stop()
    scene.broker = RunningBroker(scene.directory / "data", scene.broker._settings)
    scene.admin = scene.broker.client()
    uses(scene, second)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Yield a broker that looks at its files all the time."""
    monkeypatch.setattr(node_tls, "WATCH_INTERVAL_S", 0.01)
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_row_11_a_changed_file_is_read_without_a_request(watched: Scene) -> None:
    with watched.connect() as before:
        for _ in range(3):
            identity = watched.authority.issue()
            watched.replaced(identity)
            uses(watched, identity)
        assert before.ask(ApiVersionsRequest(), 0).error_code == 0


def test_row_11_a_changed_file_that_is_refused_is_logged_once(watched: Scene, caplog: pytest.LogCaptureFixture) -> None:
    def refusals() -> list[str]:
        return [each.getMessage() for each in caplog.records if "keeps its certificate" in each.getMessage()]

    watched.key_store.write_text("half a file")
    eventually(refusals, "a refusal")
    assert watched.serial() == watched.first.certificate.serial_number
    watched.replaced(watched.authority.issue("other"))
    eventually(lambda: "Keystore DistinguishedName does not match" in refusals()[-1], "a refusal of the name")
    count = len(refusals())
    right = watched.authority.issue()
    right.pem_file(watched.directory / "right.pem").replace(watched.key_store)
    uses(watched, right)
    assert len(refusals()) == count


def test_row_11_a_change_of_the_name_is_refused(scene: Scene) -> None:
    message = scene.rejected(keystore_location=scene.replaced(scene.authority.issue("other")))
    assert "Keystore DistinguishedName does not match: existing=CN=broker, new=CN=other" in message
    lower = scene.authority.issue("BROKER")
    assert scene.alter(keystore_location=scene.replaced(lower)) == (ErrorCode.NONE, "")


def test_row_11_a_change_that_drops_an_alternative_name_is_refused(scene: Scene) -> None:
    fewer = scene.authority.issue(hosts=["127.0.0.1"])
    message = scene.rejected(keystore_location=scene.replaced(fewer))
    assert "Keystore SubjectAltNames do not match: the new certificate lacks DNSName localhost" in message
    more = scene.authority.issue(hosts=["127.0.0.1", "localhost", "more"])
    assert scene.alter(keystore_location=scene.replaced(more)) == (ErrorCode.NONE, "")


def test_row_11_changes_of_names_are_accepted_if_they_are_allowed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, allow_dn_changes="true", allow_san_changes="true")
    try:
        other = scene.authority.issue("other", hosts=["127.0.0.1"])
        assert scene.alter(keystore_location=scene.replaced(other)) == (ErrorCode.NONE, "")
        uses(scene, other)
    finally:
        scene.close()


def test_row_11_a_certificate_that_the_other_nodes_do_not_trust_is_refused(scene: Scene) -> None:
    other = Authority("Other")
    strange = other.issue()
    path, trusted = scene.replaced(strange), str(scene.trust_store)
    assert "does not verify the certificate of" in scene.rejected(keystore_location=path)
    scene.trust_store.write_text(scene.authority.pem + other.pem)
    code, _ = scene.alter(keystore_location=path, truststore_location=trusted)
    assert code is ErrorCode.INVALID_REQUEST, "the present trust store does not verify the new certificate"
    scene.replaced(scene.first)
    assert scene.alter(truststore_location=trusted) == (ErrorCode.NONE, "")
    (listener,) = (each for each in scene.broker.server._listeners._listeners if each._tls is not None)
    tls = listener._tls
    assert tls is not None
    eventually(lambda: len(tls.client_context.get_ca_certs()) == len((scene.authority, other)), "both authorities")
    scene.replaced(strange)
    eventually(lambda: scene.alter(keystore_location=path)[0] is ErrorCode.NONE, "the new trust store")
    eventually(lambda: is_trusted_by(scene, other), "the new certificate")


def is_trusted_by(scene: Scene, authority: Authority) -> bool:
    try:
        return bool(scene.serial(authority))
    except ssl.SSLError:
        return False


def test_row_11_stores_that_cannot_be_used_are_refused_without_their_secrets(scene: Scene) -> None:
    location = str(scene.key_store)
    scene.key_store.rename(scene.directory / "moved.pem")
    assert "No such file" in scene.rejected(keystore_location=location)
    scene.authority.issue().pem_file(scene.key_store).chmod(0o644)
    assert "is readable by every user" in scene.rejected(keystore_location=location)
    scene.key_store.chmod(0o600)
    message = scene.rejected(keystore_type="JKS", keystore_password="planted secret")
    assert "planted secret" not in message
    assert "ssl.enabled.protocols of listener SECURE: TLSv1.1 is not served" in scene.rejected(
        enabled_protocols="TLSv1.1"
    )


def test_row_11_a_whole_configuration_is_checked_too(scene: Scene) -> None:
    scene.key_store.unlink()
    wrong = AlterConfigsAlterableConfig(name=LOCATION, value=str(scene.key_store))
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name=BROKER_ID, configs=[wrong])
    (answer,) = scene.admin.ask(AlterConfigsRequest(resources=[resource]), 2).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "ssl.keystore.location of listener SECURE" in answer.error_message


def test_row_54_stores_are_never_settings_of_all_brokers_or_without_a_listener(scene: Scene) -> None:
    path = str(scene.key_store)
    for broker, name in (("", LOCATION), ("", "ssl.keystore.location"), (BROKER_ID, "ssl.keystore.location")):
        config = IncrementalAlterConfigsAlterableConfig(name=name, config_operation=0, value=path)
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=ConfigResourceType.BROKER, resource_name=broker, configs=[config]
        )
        (answer,) = scene.admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert answer.error_code == ErrorCode.INVALID_REQUEST

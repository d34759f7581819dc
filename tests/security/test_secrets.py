"""Secrets at rest, in descriptions and in logs (RELIABILITY.md, rows 50 to 52)."""

from __future__ import annotations

import base64
import hashlib
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli import main
from kwire.cluster.configs.config_keys import ConfigType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.canary import forms, found_in_logs, log_everything
from tests.server.test_configs import BROKER, DELETE, SET, alter, describe
from tests.support.raw_client import sized
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker

PASSWORD = "canary-password-7f3a"
SALT = b"canary-salt-91be"
TOKEN = b"canary-token-5c2d"
SETTING = "canary-setting-aa17"
VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture
def formatted(data_dir: Path, tmp_path: Path) -> Path:
    """Return the directory of a node that is formatted with a SCRAM user."""
    properties = tmp_path / "format.properties"
    properties.write_text(f"log.dirs={data_dir}\n")
    user = f'SCRAM-SHA-256=[name=alice,iterations=4096,salt="{base64.b64encode(SALT).decode()}",password={PASSWORD}]'
    command = ["format", "-c", str(properties), "-t", "vqbMkXcHSCi2oJQ2pWmTnw", "--standalone", "--add-scram", user]
    ended = CliRunner().invoke(main, command)
    assert ended.exit_code == 0, ended.output
    assert PASSWORD not in ended.output
    return data_dir


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


# --- row 50


def test_row_50_directories_and_files_are_for_their_owner_only(data_dir: Path) -> None:
    directories = {"log.dirs": f"{data_dir}/one,{data_dir}/two", "metadata.log.dir": f"{data_dir}/metadata"}
    with RunningBroker(data_dir, directories | {"log.flush.offset.checkpoint.interval.ms": "1"}) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client, 6, cleanup_policy="compact", segment_bytes=1_048_576)
            for partition in range(6):
                for _ in range(3):
                    produce(client, topic, batch(bytes(400_000)), partition=partition)
        running = list(data_dir.rglob("*"))
    stopped = list(data_dir.rglob("*"))
    assert len(running) > 40
    for path in {*running, *stopped}:
        if path.exists() and path.parent != data_dir:
            expected = 0o700 if path.is_dir() else 0o600
            assert path.stat().st_mode & 0o777 == expected, path
    for path in data_dir.iterdir():
        assert path.stat().st_mode & 0o777 == 0o700, path


def test_row_50_a_password_is_in_no_file(formatted: Path) -> None:
    """The metadata have the salt, both keys and the iterations of a user: what a server needs to verify a proof."""
    often = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    with RunningBroker(formatted, often) as broker, broker.client() as client:
        for _ in range(20):
            create_topic(client)
    stored = b"".join(path.read_bytes() for path in formatted.rglob("*") if path.is_file())
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT, 4096)
    assert SALT in stored
    for form in (*forms(PASSWORD.encode()), *forms(salted)):
        assert form not in stored


# --- row 51


def test_row_51_sensitive_values_are_null(data_dir: Path) -> None:
    with RunningBroker(data_dir, {"my.plugin.password": SETTING}) as broker, broker.client() as client:
        assert alter(client, BROKER, "1", ("other.plugin.password", SET, SETTING)) == ErrorCode.NONE
        assert alter(client, BROKER, "", ("third.plugin.password", SET, SETTING)) == ErrorCode.NONE
        for resource, names in (("1", ("my.", "other.", "third.")), ("", ("third.",))):
            found = describe(client, BROKER, resource)
            for name in names:
                config = found[f"{name}plugin.password"]
                assert (config.value, config.is_sensitive) == (None, True)
                assert [synonym.value for synonym in config.synonyms] == [None] * len(config.synonyms)
        for config in describe(client, BROKER, "1").values():
            if config.config_type == ConfigType.PASSWORD:
                assert (config.value, config.is_sensitive) == (None, True), config.name
        for version in range(1, 5):
            resources = [DescribeConfigsResource(resource_type=BROKER, resource_name=name) for name in ("1", "")]
            client.send(DescribeConfigsRequest(resources=resources, include_synonyms=True), version)
            assert SETTING.encode() not in client.receive_frame()


def test_row_51_scram_users_are_described_without_keys(formatted: Path) -> None:
    with RunningBroker(formatted) as broker, broker.client() as client:
        request = DescribeUserScramCredentialsRequest(users=None)
        client.send(request, 0)
        frame = client.receive_frame()
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT, 4096)
        for secret in (SALT, salted, PASSWORD.encode()):
            assert not [form for form in forms(secret) if form in frame]
        (user,) = client.ask(request, 0).results
        assert [(each.mechanism, each.iterations) for each in user.credential_infos] == [(1, 4096)]


# --- row 52


def test_row_52_no_log_line_has_a_planted_secret(formatted: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The loggers log at the lowest level, while clients send secrets in valid, rejected and unreadable requests."""
    log_everything(caplog)
    with RunningBroker(formatted, {"my.plugin.password": SETTING}) as broker, broker.client() as client:
        for value in (SETTING, SETTING + "\0", SETTING * 1500):
            alter_freely(broker, "other.plugin.password", value)
        alter_freely(broker, "listener.name.plaintext.ssl.keystore.password", SETTING)
        alter_freely(broker, "listener.name.plaintext.plain.sasl.jaas.config", f'x required password="{SETTING}";')
        alter_freely(broker, "ssl.key.password", SETTING)
        with broker.client() as hostile:
            hostile.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        with broker.client() as hostile:
            answer = hostile.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + TOKEN), 2)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        with broker.client() as hostile:
            hostile.send_bytes(sized(struct.pack(">hhih", 36, 2, 1, 5) + TOKEN))
            assert hostile.is_closed()
        with broker.client() as hostile:
            hostile.send_bytes(struct.pack(">i", -5) + TOKEN)
            assert hostile.is_closed()
        assert client.ask(VERSIONS, 3).error_code == ErrorCode.NONE
        assert alter(client, BROKER, "1", ("other.plugin.password", DELETE, None)) == ErrorCode.NONE
    assert any("closing connection" in record.getMessage() for record in caplog.records), "the loggers log"
    assert found_in_logs(caplog, (PASSWORD.encode(), TOKEN, SETTING.encode(), SALT)) == []


def alter_freely(broker: RunningBroker, name: str, value: str) -> None:
    """Alter a setting of broker 1; the error, if there is one, does not contain the value."""
    from tests.hostile.test_odd_names import alter as with_message

    with broker.client() as client:
        _, message = with_message(client, BROKER, "1", **{name: value})
        assert SETTING not in (message or "")


@pytest.mark.parametrize("kind", [BROKER])
def test_row_52_settings_do_not_show_secrets_in_their_repr(kind: int) -> None:
    from kwire.server.settings.config import make_config

    config = make_config({"my.plugin.password": SETTING})
    assert SETTING not in repr(config)

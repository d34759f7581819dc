"""SASL settings at start and changed dynamically: one line names the key, and no line contains a secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.server.security.sasl.current_sasl import sasl_settings_at_start
from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kwire.server.settings.config import SettingError, make_config
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.logins import log_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

JAAS = "listener.name.sasl.plain.sasl.jaas.config"
SERVED = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,GSSAPI"
WRONG: dict[str, tuple[dict[str, str | None], str]] = {
    "the default": (
        {"sasl.enabled.mechanisms": None},
        (
            "listener.name.sasl.gssapi.sasl.jaas.config: is missing; give the key tab and the principal of GSSAPI "
            "there, or set sasl.enabled.mechanisms to other mechanisms"
        ),
    ),
    "another mechanism": (
        {"sasl.enabled.mechanisms": "PLAIN,NTLM"},
        f"sasl.enabled.mechanisms: NTLM is not served on listener SASL; use some of {SERVED}",
    ),
    "no mechanism": (
        {"sasl.enabled.mechanisms": ""},
        f"sasl.enabled.mechanisms: is empty on listener SASL; use some of {SERVED}",
    ),
    "no users": ({JAAS: None}, f"{JAAS}: is missing; give the users of PLAIN there"),
    "half a string": (
        {JAAS: f'{PLAIN_MODULE} required user_a="Geheim"'},
        f"{JAAS}: JAAS config entry not terminated by semi-colon",
    ),
    "the module of another mechanism": (
        {JAAS: f'{SCRAM_MODULE} required user_a="Geheim";'},
        f"{JAAS}: does not begin with the login module of PLAIN; use {PLAIN_MODULE}",
    ),
    "no lifetime": (
        {"listener.name.sasl.plain.connections.max.reauth.ms": "soon"},
        (
            "listener.name.sasl.plain.connections.max.reauth.ms: "
            "Invalid value soon for configuration connections.max.reauth.ms: Not a number of type LONG"
        ),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_broker_does_not_start_with_wrong_sasl_settings(what: str, tmp_path: Path) -> None:
    changed, expected = WRONG[what]
    values = {key: value for key, value in {**settings_of(), **changed}.items() if value is not None}
    with pytest.raises(SettingError) as error:
        RunningBroker(tmp_path, values)
    assert str(error.value) == expected
    assert list(tmp_path.iterdir()) == []


def test_the_same_settings_without_a_sasl_listener_start(tmp_path: Path) -> None:
    values = {"sasl.enabled.mechanisms": "GSSAPI,PLAIN", "sasl.server.max.receive.size": "100"}
    with RunningBroker(tmp_path, values) as broker:
        assert broker.bootstrap_server


@pytest.mark.parametrize(
    ("address", "mechanisms", "warns"),
    [
        ("127.0.0.1:0", ["PLAIN"], False),
        ("localhost:0", ["PLAIN"], False),
        ("[::1]:0", ["PLAIN"], False),
        (":0", ["PLAIN"], True),
        ("10.0.0.1:0", ["SCRAM-SHA-256", "PLAIN"], True),
        ("10.0.0.1:0", ["SCRAM-SHA-256"], False),
    ],
)
def test_row_18_passwords_beyond_loopback_without_tls_are_warned_about(
    address: str, mechanisms: list[str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_config(settings_of(mechanisms=mechanisms, address=address))
    sasl_settings_at_start(config.listeners[0], config)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [("accepts passwords without TLS" in each) for each in warnings] == [True] * warns


def test_mechanisms_are_altered_while_the_broker_runs(tmp_path: Path) -> None:
    mechanisms = "listener.name.sasl.sasl.enabled.mechanisms"

    def alter(broker: RunningBroker, key: str, value: str) -> tuple[int, str]:
        change = IncrementalAlterConfigsAlterableConfig(name=key, config_operation=0, value=value)
        resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        with broker.client() as client:
            assert log_in(client, "PLAIN", "admin", "x") == ""
            response = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        (result,) = response.responses
        return result.error_code, result.error_message or ""

    def offered(broker: RunningBroker) -> list[str]:
        with broker.client() as client:
            return list(client.ask(SaslHandshakeRequest(mechanism="?"), 1).mechanisms)

    with RunningBroker(tmp_path, settings_of(node_id="1")) as broker:
        code, message = alter(broker, mechanisms, "NTLM")
        assert code == ErrorCode.INVALID_REQUEST
        assert message.endswith(f"NTLM is not served on listener SASL; use some of {SERVED}")
        code, message = alter(broker, JAAS, f'{PLAIN_MODULE} required user_a="Geheim";')
        assert code == ErrorCode.INVALID_CONFIG, "it names a class"
        assert "Geheim" not in message
        assert alter(broker, mechanisms, "PLAIN") == (0, "")
        eventually(lambda: offered(broker) == ["PLAIN"], "one mechanism")
        assert alter(broker, mechanisms, "PLAIN,SCRAM-SHA-256") == (0, "")
        eventually(lambda: offered(broker) == ["PLAIN", "SCRAM-SHA-256"], "two mechanisms")

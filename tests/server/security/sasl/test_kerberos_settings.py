"""Settings of GSSAPI: one line names the key, and a key tab that all can read stops the start."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.server.security.sasl.jaas import SCRAM_MODULE
from kwire.server.settings.config import SettingError
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.kerberos import MODULE_KEY, install, kerberos_settings, key_tab, module_of
from tests.server.security.sasl.logins import log_in, send
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

RULES = "sasl.kerberos.principal.to.local.rules"
SERVICE = "sasl.kerberos.service.name"


def why(directory: Path, settings: dict[str, str]) -> str:
    """Return why a broker does not start."""
    with pytest.raises(SettingError) as error:
        RunningBroker(directory / "data", settings)
    assert not (directory / "data").exists()
    return str(error.value)


def test_row_53_a_key_tab_that_every_user_can_read_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    path = key_tab(tmp_path, 0o604)
    settings = kerberos_settings(module_of(path))
    reason = f"the key tab {path} is readable by every user of this machine; chmod o-rwx it"
    assert why(tmp_path, settings) == f"{MODULE_KEY}: {reason}"
    path.chmod(0o640)
    with RunningBroker(tmp_path / "data", settings):
        pass


def test_without_the_extra_a_broker_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *others: Any, **more: Any) -> Any:
        if name == "gssapi":
            raise ModuleNotFoundError(name)
        return real(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert why(tmp_path, kerberos_settings(module_of(key_tab(tmp_path)))) == (
        "sasl.enabled.mechanisms: GSSAPI on listener SASL needs the extra kerberos; "
        "install it: pip install 'kwire[kerberos]'"
    )
    with RunningBroker(tmp_path / "data", settings_of()):
        pass


WRONG_OPTIONS: list[tuple[dict[str, str | None], str]] = [
    ({"useKeyTab": None}, "has no useKeyTab=true; a node has its keys in a key tab"),
    ({"storeKey": "false"}, "has no storeKey=true; a node has its keys in a key tab"),
    ({"keyTab": None}, "has no keyTab; add it"),
    ({"principal": ""}, "has no principal; add it"),
    ({"serviceName": "bk"}, "has serviceName=bk, but sasl.kerberos.service.name is kafka; keep one"),
    ({"keyTab": "/missing"}, "the key tab /missing cannot be read: No such file or directory"),
    ({"keyTab": "/"}, "the key tab / is not a file"),
    ({"keyTab": "/\\0"}, "the key tab /\0 cannot be read: it is no path"),
]


@pytest.mark.parametrize(("changed", "reason"), WRONG_OPTIONS)
def test_a_login_module_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], reason: str
) -> None:
    install(monkeypatch)
    module = module_of(key_tab(tmp_path), **changed)
    assert why(tmp_path, kerberos_settings(module)) == f"{MODULE_KEY}: {reason}"


def test_a_principal_without_keys_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    path = key_tab(tmp_path)
    module = module_of(path, principal="kafka/other@EXAMPLE.COM")
    reason = "'No key table entry found for kafka/other@EXAMPLE.COM'"
    expected = f"{MODULE_KEY}: kafka/other@EXAMPLE.COM cannot be used with {path}: {reason}"
    assert why(tmp_path, kerberos_settings(module)) == expected


def test_other_settings_that_cannot_be_used_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    own = kerberos_settings(module_of(key_tab(tmp_path)))
    missing = f"{MODULE_KEY}: is missing; give the key tab and the principal of GSSAPI there, or set "
    for changed, expected in (
        ({SERVICE: None}, f"{SERVICE}: is missing; it is the first component of this node's principal"),
        ({RULES: "RULE:[1]"}, f"{RULES}: 'RULE:[1]' is not a rule"),
        ({f"listener.name.sasl.{RULES}": "x"}, f"{RULES}: 'x' is not a rule"),
        ({MODULE_KEY: None}, f"{missing}sasl.enabled.mechanisms to other mechanisms"),
        (
            {MODULE_KEY: f"{SCRAM_MODULE} required;"},
            (
                f"{MODULE_KEY}: does not begin with the login module of GSSAPI; "
                "use com.sun.security.auth.module.Krb5LoginModule"
            ),
        ),
    ):
        settings = {key: value for key, value in {**own, **changed}.items() if value is not None}
        assert why(tmp_path, settings) == expected


def test_rules_and_service_name_are_altered_while_the_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    settings = kerberos_settings(module_of(key_tab(tmp_path)), node_id="1")
    settings |= {"sasl.enabled.mechanisms": "GSSAPI,PLAIN", "connection.failed.authentication.delay.ms": "0"}

    def alter(broker: RunningBroker, key: str, value: str) -> tuple[int, str]:
        change = IncrementalAlterConfigsAlterableConfig(name=key, config_operation=0, value=value)
        resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        with broker.client() as client:
            assert log_in(client, "PLAIN", "admin", "x") == ""
            (result,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return result.error_code, result.error_message or ""

    def is_accepted(broker: RunningBroker, principal: bytes, authorization_id: bytes = b"") -> bool:
        with broker.client() as client:
            client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
            if send(client, b"ticket-without-answer:" + principal).error_code:
                return False
            return bool(send(client, b"wrapped:\x01\0\0\0" + authorization_id).error_code == 0)

    with RunningBroker(tmp_path / "data", settings) as broker:
        assert not is_accepted(broker, b"alice@OTHER.COM")
        code, message = alter(broker, RULES, "RULE:[1")
        assert (code, message.rpartition(": ")[2]) == (ErrorCode.INVALID_REQUEST, "'RULE:[1' is not a rule")
        assert alter(broker, RULES, "RULE:[1:$1]") == (0, "")
        eventually(lambda: is_accepted(broker, b"alice@OTHER.COM"), "the rule")
        assert not is_accepted(broker, b"alice@OTHER.COM", b"bk@broker")
        assert alter(broker, SERVICE, "bk") == (0, "")
        eventually(lambda: is_accepted(broker, b"alice@OTHER.COM", b"bk@broker"), "the service name")

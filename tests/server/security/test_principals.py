"""Principal builder: names the clients of a listener, as Apache Kafka's principal.builder.class does."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.server.node import plug_ins, principals
from kwire.server.settings.config import SettingError, make_config
from tests.server.security.acl_requests import SECURED, create, describe, entry
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


def by_listener(_: dict[str, str]) -> Callable[..., str]:
    def named(principal: str, *, listener_name: str, host: str) -> str:
        assert (principal, host) == ("User:ANONYMOUS", "127.0.0.1")
        return "User:root" if listener_name == "ADMIN" else f"User:{listener_name.lower()}"

    return named


def refusing(_: dict[str, str]) -> Callable[..., str]:
    def named(principal: str, *, listener_name: str, host: str) -> str:
        raise LookupError("an unknown client")

    return named


def no_function(_: dict[str, str]) -> str:
    return "not a function"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install principal builders as entry points."""
    found = EntryPoints(
        EntryPoint(name, f"{__name__}:{name.replace('-', '_')}", principals.ENTRY_POINTS)
        for name in ("by-listener", "no-function", "refusing")
    )
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: found.select(group=group))


def test_clients_are_named_by_their_listener(tmp_path: Path) -> None:
    settings = SECURED | {
        "principal.builder.class": "by-listener",
        "listeners": "CLIENT://127.0.0.1:0,ADMIN://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,ADMIN:PLAINTEXT",
        "inter.broker.listener.name": "ADMIN",
    }
    with RunningBroker(tmp_path, settings) as running:
        admin_port = running.server._listeners.ports()["ADMIN"]
        with RawClient(f"127.0.0.1:{admin_port}") as admin, running.client() as client:
            assert create(admin, entry()) == [(ErrorCode.NONE, "")]
            assert create(client, entry())[0][0] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert describe(admin) == {entry()}


def test_an_error_of_the_principal_builder_closes_the_connection(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, {"principal.builder.class": "refusing"}) as running, running.client() as client:
        assert client.is_closed()
        eventually(lambda: running.server._listeners.table.count == 0, "the connection to count no more")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown", "no entry point of the group kwire.principal_builders is called unknown"),
        ("no-function", "has not returned a function"),
    ],
)
def test_a_principal_builder_that_cannot_be_used_stops_the_start(name: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        principals.make_principal_builder(make_config({"principal.builder.class": name}))


def test_by_default_a_login_names_the_client() -> None:
    builder = principals.make_principal_builder(make_config({}))
    assert builder("User:alice", listener_name="PLAINTEXT", host="::1") == "User:alice"

"""Choice of the authorizer: none, Kafka's standard one, or one that a program has installed as an entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import AllowEverything, Authorizer
from kwire.cluster.security.standard_authorizer import StandardAuthorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.server.node import authorizers, plug_ins
from kwire.server.settings.config import SettingError, make_config
from tests.server.security.acl_requests import client_of, create, entry
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker


class NoWriting(Authorizer):
    """Authorizer of a test: only one principal may write."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.writer = settings["no.writing.except"]

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return operation != Operation.WRITE or principal == self.writer


def no_authorizer(_: dict[str, str]) -> str:
    return "not an authorizer"


def broken(_: dict[str, str]) -> Authorizer:
    raise KeyError("no.writing.except")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install authorizers as entry points."""
    names = {"no-writing": "NoWriting", "no-authorizer": "no_authorizer", "broken": "broken", "missing": "missing"}
    found = EntryPoints(
        EntryPoint(name, f"{__name__}:{attribute}", authorizers.ENTRY_POINTS) for name, attribute in names.items()
    )
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: found.select(group=group))


def chosen(name: str, **more: Any) -> Authorizer:
    config = make_config({"authorizer.class.name": name, **more})
    return authorizers.make_authorizer(config, CurrentSettings(config.parsed))


def test_without_a_setting_everybody_may_do_everything() -> None:
    assert isinstance(chosen(""), AllowEverything)


def test_kafkas_class_name_means_the_standard_authorizer() -> None:
    authorizer = chosen(authorizers.STANDARD, **{"super.users": "User:a;User:b"})
    assert isinstance(authorizer, StandardAuthorizer)
    assert authorizer.super_users == {"User:a", "User:b"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown", "no entry point of the group kwire.authorizers is called unknown; there are org.apache.kafka"),
        ("no-authorizer", "no-authorizer is not a kwire"),
        ("broken", "broken cannot be started: KeyError"),
        ("missing", "missing cannot be started: AttributeError"),
    ],
)
def test_an_authorizer_that_cannot_be_used_stops_the_start_in_one_line(name: str, words: str) -> None:
    with pytest.raises(SettingError, match=words) as rejected:
        chosen(name)
    assert "\n" not in str(rejected.value)
    assert str(rejected.value).startswith("authorizer.class.name: ")


@pytest.mark.parametrize("users", ["alice", "User:", ":alice", "User:a;bob"])
def test_super_users_that_are_no_principals_stop_the_start(users: str) -> None:
    with pytest.raises(SettingError, match=r"super\.users: expected a string in format principalType:principalName"):
        make_config({"super.users": users})


def test_an_installed_authorizer_decides(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": "no-writing", "no.writing.except": "User:writer"}
    with RunningBroker(tmp_path, settings) as running, running.client() as client:
        create_topic(client, name="t")
        assert produce(client, "t", batch(b"v")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with client_of(running, "User:writer") as writer:
            assert produce(writer, "t", batch(b"v")).error_code == ErrorCode.NONE
        assert create(client, entry()) == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")]

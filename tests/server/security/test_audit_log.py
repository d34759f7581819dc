"""Audit log: denied requests at INFO, allowed ones at DEBUG, one line each whatever a client sends (row 37)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import AllowEverything
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.server.requests.audit_log import LINES_PER_SECOND_MAX, SHOWN_MAX, AuditLog, logger
from tests.server.security.acl_requests import ROOT, SECURED, client_of, create, entry
from tests.support.requests import create_topic, unique
from tests.support.running import RunningBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SECURED) as running:
        yield running


def ask(broker: RunningBroker, principal: str, *names: str) -> None:
    with client_of(broker, principal) as client:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names] or None), 12)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name == logger.name]


def test_row_37_a_denied_request_is_logged_with_who_where_what_and_why(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger.name)
    ask(broker, "User:mallory", "secret")
    expected = (
        "Principal = User:mallory is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:secret for request = Metadata based on rule DefaultDeny"
    )
    assert lines(caplog) == [(logging.INFO, expected)]


def test_row_37_allowed_and_unrequested_decisions_are_logged_at_debug(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, other = unique(), unique()
    with client_of(broker, ROOT) as root:
        create_topic(root, name=topic)
        create_topic(root, name=other)
        create(root, entry(Operation.DESCRIBE, name=topic, principal="User:carol"))
    caplog.set_level(logging.DEBUG, logger.name)
    ask(broker, "User:carol")
    found = {message.split(" operation")[0]: message for level, message in lines(caplog) if level == logging.DEBUG}
    assert f"Topic:LITERAL:{topic} " in found["Principal = User:carol is Allowed"]
    assert "MatchingAcl(" in found["Principal = User:carol is Allowed"]
    assert any(
        f"Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:{other}" in message
        for _, message in lines(caplog)
    )
    assert all(level == logging.DEBUG for level, _ in lines(caplog))


@pytest.mark.parametrize("name", ["a\nPrincipal = User:admin is Allowed", "\x1b[2J", "a\u2028b", "\r", "\x00"])
def test_row_37_no_name_ends_a_line(broker: RunningBroker, caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.INFO, logger.name)
    ask(broker, f"User:{name}", name)
    ((_, message),) = lines(caplog)
    assert message.isprintable()
    assert message.startswith("Principal = User:")


def test_row_37_repeated_and_too_many_lines_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger.name)
    with RunningBroker(tmp_path, SECURED) as running:
        ask(running, "User:loud", "same")
        ask(running, "User:loud", "same")
        assert len(lines(caplog)) == 1
        caplog.clear()
        ask(running, "User:loud", *(f"n{number}" for number in range(LINES_PER_SECOND_MAX * 3)))
    assert 0 < len(lines(caplog)) <= LINES_PER_SECOND_MAX * 2


def test_row_37_repeated_lines_leave_room_for_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger.name)
    audit = AuditLog(lambda: 0.0)

    def deny(user: str) -> None:
        connection = SimpleNamespace(principal=user, peer_host="10.0.0.1")
        services = SimpleNamespace(authorizer=AllowEverything())
        context: Any = SimpleNamespace(connection=connection, services=services, api_key=ApiKey.METADATA)
        audit.write(context, Operation.READ, ResourceType.TOPIC, "t", is_allowed=False, is_requested=True)

    for _ in range(LINES_PER_SECOND_MAX * 3):
        deny("User:loud")
    deny("User:quiet")
    assert [message.split(" is ")[0] for _, message in lines(caplog)] == [
        "Principal = User:loud",
        "Principal = User:quiet",
    ]


def test_row_37_long_names_are_shortened(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger.name)
    ask(broker, "User:mallory", "x" * 32_000)
    ((_, message),) = lines(caplog)
    assert SHOWN_MAX < len(message) < 2 * SHOWN_MAX


def test_without_an_authorizer_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger.name)
    with RunningBroker(tmp_path) as running:
        assert running.server.services.audit is None
        ask(running, "User:x", "t")
        assert running.server.services.authorizer.allows("User:x", "h", Operation.ALTER, ResourceType.CLUSTER, "")
    assert lines(caplog) == []

"""A listener beyond loopback without access control is logged loudly at start (row 55)."""

from __future__ import annotations

import logging

import pytest

from kwire.cluster.configs.settings import CurrentSettings
from kwire.server.node.authorizers import STANDARD, make_authorizer
from kwire.server.node.exposure import warn_of_exposure
from kwire.server.settings.config import make_config


def warnings(caplog: pytest.LogCaptureFixture, listeners: str, **more: str) -> list[str]:
    names = {"authorizer": "authorizer.class.name"}
    settings = {names[name]: value for name, value in more.items()}
    advertised = "PLAINTEXT://broker:9092"
    config = make_config({"listeners": listeners, "advertised.listeners": advertised, **settings})
    warn_of_exposure(config, make_authorizer(config, CurrentSettings(config.parsed)))
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_row_55_loopback_needs_no_warning(caplog: pytest.LogCaptureFixture, host: str) -> None:
    assert warnings(caplog, f"PLAINTEXT://{host}:9092") == []


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1", "[::]", "broker"])
def test_row_55_other_addresses_without_an_authorizer_are_warned_of(
    caplog: pytest.LogCaptureFixture, host: str
) -> None:
    (message,) = warnings(caplog, f"PLAINTEXT://{host}:9092")
    assert message.startswith("listener PLAINTEXT on ")
    assert "everyone who reaches it may" in message


def test_row_55_an_authorizer_ends_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, "PLAINTEXT://0.0.0.0:9092", authorizer=STANDARD) == []

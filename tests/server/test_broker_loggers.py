"""Broker loggers as resources: described, altered, reset; loggers of the host program stay unchanged (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.test_configs import describe
from tests.support.raw_client import RawClient

BROKER_LOGGER, SOURCE = 8, 6
NAME = "kwire.server.node.storage"
SET, DELETE, APPEND = 0, 1, 2
Change = tuple[str, int, str | None]


@pytest.fixture(autouse=True)
def _levels_come_back() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in ("kwire", NAME)}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def alter(client: RawClient, *changes: Change, node: str = "1", validate_only: bool = False) -> Any:
    configs = [
        IncrementalAlterConfigsAlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=node, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = client.ask(request, 1).responses
    return answer


def level_of(client: RawClient, name: str = NAME) -> str | None:
    value: str | None = describe(client, BROKER_LOGGER, "1", name)[name].value
    return value


def test_a_level_is_set_and_removed(client: RawClient) -> None:
    assert alter(client, ("root", SET, "ERROR")).error_code == ErrorCode.NONE
    assert level_of(client) == "ERROR", "it has none of its own"
    assert alter(client, (NAME, SET, "DEBUG")).error_code == ErrorCode.NONE
    assert (level_of(client), level_of(client, "root")) == ("DEBUG", "ERROR")
    assert logging.getLogger(NAME).level == logging.DEBUG
    assert alter(client, (NAME, DELETE, None)).error_code == ErrorCode.NONE
    assert level_of(client) == "ERROR"


def test_loggers_are_described(client: RawClient) -> None:
    found = describe(client, BROKER_LOGGER, "1")
    assert {"root", NAME} <= found.keys()
    assert all(name == "root" or name.startswith("kwire.") for name in found)
    shown = found[NAME]
    assert (shown.config_source, shown.read_only, shown.is_sensitive, shown.synonyms) == (SOURCE, False, False, [])


def test_other_loggers_of_the_process_keep_their_level(client: RawClient) -> None:
    before = logging.getLogger().level
    assert alter(client, ("root", SET, "FATAL")).error_code == ErrorCode.NONE
    assert logging.getLogger().level == before
    assert alter(client, ("asyncio", SET, "FATAL")).error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (("kafka.server.KafkaApis", SET, "INFO"), ErrorCode.INVALID_CONFIG, "does not exist"),
        ((NAME, SET, "LOUD"), ErrorCode.INVALID_CONFIG, "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        ((NAME, SET, "debug"), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ((NAME, APPEND, "DEBUG"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
    ],
)
def test_an_invalid_logger_change_changes_nothing(client: RawClient, change: Change, code: ErrorCode, why: str) -> None:
    before = level_of(client, "kwire.server")
    answer = alter(client, ("kwire.server", SET, "FATAL"), change)
    assert answer.error_code == code
    assert why in answer.error_message
    assert level_of(client, "kwire.server") == before


def test_validate_only_changes_nothing(client: RawClient) -> None:
    before = level_of(client)
    assert alter(client, (NAME, SET, "FATAL"), validate_only=True).error_code == ErrorCode.NONE
    assert level_of(client) == before


@pytest.mark.parametrize("node", ["", "2", "one"])
def test_levels_are_those_of_the_node_that_is_asked(client: RawClient, node: str) -> None:
    assert alter(client, (NAME, SET, "INFO"), node=node).error_code == ErrorCode.INVALID_REQUEST

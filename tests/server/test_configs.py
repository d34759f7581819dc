"""Configurations by raw requests: described with their sources, altered, and effective at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_configs import AlterConfigsAlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, list_offset, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {
        "log.initial.task.delay.ms": "50",
        "log.retention.check.interval.ms": "50",
        "log.segment.delete.delay.ms": "10",
        "log.roll.hours": "5",
    }
    with RunningBroker(tmp_path_factory.mktemp("configs"), settings) as running:
        yield running


def describe(client: RawClient, kind: int, name: str, *keys: str, version: int = 4) -> dict[str, Any]:
    asked = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)]
    synonyms = {"include_synonyms": True, "include_documentation": version >= 3}
    (result,) = client.ask(DescribeConfigsRequest(resources=asked, **synonyms), version).results
    assert result.error_code == 0, result
    return {config.name: config for config in result.configs}


def alter(
    client: RawClient, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> int:
    configs = [
        IncrementalAlterConfigsAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = client.ask(request, 1).responses
    assert bool(answer.error_message) == bool(answer.error_code)
    code: int = answer.error_code
    return code


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_is_described_at_every_version(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client, retention_ms=1234)
    configs = describe(client, TOPIC, topic, version=version)
    assert len(configs) > 25
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source) == ("1234", DYNAMIC_TOPIC)
    assert (retention.read_only, retention.is_sensitive) == (False, False)
    assert retention.config_type == (5 if version >= 3 else 0)
    assert bool(retention.documentation) == (version >= 3)


def test_internal_values_are_shown_as_they_were_written(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert "internal.segment.bytes" not in describe(client, TOPIC, topic)
    changes = ("internal.segment.bytes", SET, " +5000"), ("flush.ms", SET, " +5")
    assert alter(client, TOPIC, topic, *changes) == 0
    configs = describe(client, TOPIC, topic)
    internal = configs["internal.segment.bytes"]
    assert (internal.value, internal.synonyms[0].value) == (" +5000", " +5000")
    assert configs["flush.ms"].value == "5"


def test_values_come_from_the_nearest_source(client: RawClient) -> None:
    topic, _ = create_topic(client)

    def seen(key: str) -> tuple[str | None, int]:
        config = describe(client, TOPIC, topic, key)[key]
        return config.value, config.config_source

    assert seen("segment.bytes") == ("1073741824", DEFAULT)
    assert seen("segment.ms") == (str(5 * 3_600_000), DEFAULT), "as in Kafka, since log.roll.ms is not set"
    key = "log.index.interval.bytes"
    assert alter(client, BROKER, "", (key, SET, "8000")) == 0
    assert seen("index.interval.bytes") == ("8000", DYNAMIC_DEFAULT)
    assert alter(client, BROKER, "1", (key, SET, "9000")) == 0
    assert seen("index.interval.bytes") == ("9000", DYNAMIC_BROKER)
    assert alter(client, TOPIC, topic, ("index.interval.bytes", SET, "7000")) == 0
    assert seen("index.interval.bytes") == ("7000", DYNAMIC_TOPIC)
    synonyms = describe(client, TOPIC, topic)["index.interval.bytes"].synonyms
    assert [(each.name, each.value, each.source) for each in synonyms] == [
        ("index.interval.bytes", "7000", DYNAMIC_TOPIC),
        (key, "9000", DYNAMIC_BROKER),
        (key, "8000", DYNAMIC_DEFAULT),
        (key, "4096", DEFAULT),
    ]
    assert describe(client, BROKER, "1")[key].config_source == DYNAMIC_BROKER
    assert set(describe(client, BROKER, "")) == {key, "min.insync.replicas"}
    for name in ("", "1"):
        assert alter(client, BROKER, name, (key, DELETE, None)) == 0
    assert alter(client, TOPIC, topic, ("index.interval.bytes", DELETE, None)) == 0
    assert seen("index.interval.bytes") == ("4096", DEFAULT)


def test_static_settings_of_the_broker_are_read_only(client: RawClient) -> None:
    configs = describe(client, BROKER, "1")
    assert (configs["log.dirs"].read_only, configs["log.dirs"].config_source) == (True, STATIC)
    assert not configs["log.retention.ms"].read_only


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "never-made", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_describe_configs_rejects_invalid_resources(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    asked = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)]
    (result,) = client.ask(DescribeConfigsRequest(resources=asked), 4).results
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 7, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_config_changes_are_rejected(client: RawClient, changes: list[Any], code: ErrorCode) -> None:
    topic, _ = create_topic(client)
    assert alter(client, TOPIC, topic, *changes) == code
    assert describe(client, TOPIC, topic, "retention.ms")["retention.ms"].config_source == DEFAULT


def test_a_broker_resource_name_is_parsed_as_a_number(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        for name, value in {"01": None, "+1": None, "0" * 5000 + "1": None, "1": "77"}.items():
            assert alter(client, BROKER, name, ("log.retention.ms", SET, "77")) == 0
            assert describe(client, BROKER, name, "log.retention.ms")["log.retention.ms"].value == value
        assert describe(client, BROKER, "01", "log.retention.ms")["log.retention.ms"].value == "77"


@pytest.mark.parametrize("name", ["2", "-1", " 1", "1\n", "12345678901", "9" * 5000, "x", "\u0661"])
def test_names_of_no_broker_are_rejected(client: RawClient, name: str) -> None:
    assert alter(client, BROKER, name, ("log.retention.ms", SET, "77")) == ErrorCode.INVALID_REQUEST


def test_validate_only_changes_nothing(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "5"), validate_only=True) == 0
    assert describe(client, TOPIC, topic, "retention.ms")["retention.ms"].value != "5"


@pytest.mark.parametrize("version", range(3))
def test_a_whole_configuration_is_replaced(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client, retention_ms=1, segment_ms=2)
    resource = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[AlterConfigsAlterableConfig(name="segment.ms", value="9")],
    )
    (answer,) = client.ask(AlterConfigsRequest(resources=[resource]), version).responses
    assert answer.error_code == 0
    configs = describe(client, TOPIC, topic)
    assert (configs["segment.ms"].value, configs["retention.ms"].config_source) == ("9", DEFAULT)
    (twice,) = client.ask(AlterConfigsRequest(resources=[resource, resource]), version).responses
    assert twice.error_code == ErrorCode.INVALID_REQUEST


def test_max_message_bytes_counts_at_once(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"x" * 500)).error_code == 0
    alter(client, TOPIC, topic, ("max.message.bytes", SET, "300"))
    assert produce(client, topic, batch(b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(client, BROKER, "", ("message.max.bytes", SET, "100"))
    assert produce(client, topic, batch(b"x" * 100)).error_code == 0, "the topic's own setting wins"
    alter(client, TOPIC, topic, ("max.message.bytes", DELETE, None))
    assert produce(client, topic, batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(client, BROKER, "", ("message.max.bytes", DELETE, None))
    assert produce(client, topic, batch(b"x" * 500)).error_code == 0


def test_segments_and_retention_follow_the_settings(client: RawClient) -> None:
    topic, _ = create_topic(client, retention_ms=-1)
    alter(client, TOPIC, topic, ("segment.bytes", SET, str(1024 * 1024)))
    for _ in range(4):
        produce(client, topic, batch(b"x" * 600_000))
    assert list_offset(client, topic, -2).offset == 0
    alter(client, TOPIC, topic, ("retention.bytes", SET, "700000"))
    eventually(lambda: list_offset(client, topic, -2).offset == 2, "segments over retention.bytes to go")
    alter(client, TOPIC, topic, ("retention.bytes", DELETE, None), ("retention.ms", SET, "1000"))
    eventually(lambda: list_offset(client, topic, -2).offset == 4, "segments older than retention.ms to go")
    assert fetch(client, topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert produce(client, topic, batch(b"x")).base_offset == 4


def test_changes_outlive_the_broker(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        topic, _ = create_topic(client, cleanup_policy="compact")
        assert alter(client, TOPIC, topic, ("cleanup.policy", APPEND, "delete"), ("segment.ms", SET, "7")) == 0
        assert alter(client, BROKER, "", ("log.retention.ms", SET, "77")) == 0
    with RunningBroker(data_dir) as broker, broker.client() as client:
        configs = describe(client, TOPIC, topic)
        assert configs["cleanup.policy"].value == "compact,delete"
        assert configs["segment.ms"].value == "7"
        assert configs["retention.ms"].value == "77"

"""Settings that Kafka rejects at start, and changes that it rejects while running, with its messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.controller.plans.configs import AlterOperation
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_configs import (
    AlterConfigsAlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.server.node.node_publisher import apply_each
from kwire.server.settings.config import SettingError, load_config, make_config
from kwire.server.settings.dynamic_configs import DynamicConfigs
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker

BROKER = 4
INVALID = "Invalid value org.apache.kafka.common.config.ConfigException: "
MAP = "listener.security.protocol.map"
LOCAL_MS, LOCAL_BYTES = "log.local.retention.ms", "log.local.retention.bytes"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`"),
        ({"listeners": "A://h:1,A://h:2"}, "each listener must have a different name"),
        ({"listeners": "A://h:1,B://h:1"}, "each listener must have a different port"),
        ({MAP: "PLAINTEXT"}, "is not of the form NAME:PROTOCOL"),
        ({MAP: "PLAINTEXT:TELNET"}, "Invalid security protocol `TELNET`"),
        ({"early.start.listeners": "NOBODY"}, "NOBODY is not among listeners"),
        ({"log.cleaner.threads": "0"}, "/ by zero"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "a b:5"}, "contains invalid addresses : a b"),
        ({"max.connections.per.ip.overrides": "localhost"}, "Error parsing configuration property"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol is not supported"),
        ({"offsets.topic.compression.codec": "5"}, "Unknown compression type id: 5"),
        ({"group.consumer.assignors": "org.example.Mine"}, "Class org.example.Mine cannot be found"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_broker_does_not_start_with_invalid_settings(settings: dict[str, str], why: str) -> None:
    with pytest.raises(SettingError) as rejected:
        make_config(settings)
    assert why in str(rejected.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"node.id": "3", "broker.id": "3"},
        {"early.start.listeners": "plaintext"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:5"},
        {"connections.max.idle.ms": "-1", "connection.failed.authentication.delay.ms": "100000"},
    ],
    ids=lambda value: next(iter(value)),
)
def test_a_broker_starts_with_unusual_valid_settings(settings: dict[str, str]) -> None:
    config = make_config(settings)
    assert all(config.values[name] == text for name, text in settings.items())


def test_a_negative_broker_id_counts_as_not_given() -> None:
    assert make_config({"broker.id": "-1"}).node_id == make_config({}).node_id


def test_a_file_that_no_java_reads_is_rejected() -> None:
    with pytest.raises(SettingError, match="the settings cannot be read"):
        load_config("node.id=\\u12\n")


def test_a_setting_that_is_not_served_is_rejected_by_name() -> None:
    with pytest.raises(SettingError, match="is not served yet, only its default"):
        make_config({"remote.log.storage.system.enable": "true"})


# --- while the broker runs


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {"log.cleaner.threads": "4", "num.io.threads": "8"}
    with RunningBroker(tmp_path_factory.mktemp("rejected"), settings) as running:
        yield running


def change(client: RawClient, name: str, value: str, operation: int = AlterOperation.SET) -> tuple[ErrorCode, str]:
    """Return the error code and message of a change for all brokers, validated only."""
    config = IncrementalAlterConfigsAlterableConfig(name=name, config_operation=operation, value=value)
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    (answer,) = client.ask(request, 1).responses
    return ErrorCode(answer.error_code), answer.error_message or ""


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("num.io.threads", "3", "value should be at least half the current value 8"),
        ("log.cleaner.threads", "1", "cannot be reduced to less than half the current value 4"),
        ("log.cleaner.threads", "9", "cannot be increased to more than double the current value 4"),
        ("max.connections", "0", "Invalid max.connections 0"),
        (LOCAL_MS, "-1", f"Invalid value -1 for configuration {LOCAL_MS}: Value must not be -1 as log.retention.ms"),
        (LOCAL_MS, "604800001", "Value must not be more than log.retention.ms property value: 604800000"),
        ("metric.reporters", "org.example.Mine", "failed with class class kafka.server.DynamicMetricsReporters"),
    ],
)
def test_a_running_broker_rejects_invalid_dynamic_settings(client: RawClient, name: str, value: str, why: str) -> None:
    code, message = change(client, name, value)
    assert code is ErrorCode.INVALID_REQUEST
    assert message.startswith(INVALID)
    assert why in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "PLAINTEXT://127.0.0.1:0"),
        (LOCAL_MS, "604800000"),
        (LOCAL_BYTES, "-1"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
    ],
)
def test_a_running_broker_accepts_unusual_valid_dynamic_settings(client: RawClient, name: str, value: str) -> None:
    assert change(client, name, value) == (ErrorCode.NONE, "")


@pytest.mark.parametrize(
    ("operation", "word"), [(AlterOperation.APPEND, "append"), (AlterOperation.SUBTRACT, "subtract")]
)
def test_only_a_list_is_added_to_and_taken_from(client: RawClient, operation: AlterOperation, word: str) -> None:
    reported = f"Config value {word} is not allowed for config key: num.io.threads"
    assert change(client, "num.io.threads", "1", operation) == (ErrorCode.INVALID_CONFIG, reported)


def test_dynamic_settings_of_another_version_that_cannot_be_used_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """A newer broker may have stored them before a downgrade."""
    stored = {"node.id": "7", "log.retention.ms": "soon", "log.roll.ms": "7000"}
    dynamic = DynamicConfigs(1, CurrentSettings(make_config({}).parsed))
    dynamic.start(MetadataImage(configs={(ConfigResourceType.BROKER, "1"): stored}))
    assert dynamic.own == {"log.roll.ms": "7000"}
    assert "the dynamic configuration node.id is ignored: it cannot change while a broker runs" in caplog.text
    assert "the dynamic configuration log.retention.ms is ignored: " in caplog.text


def image_with(**layers: dict[str, str]) -> MetadataImage:
    names = {"default": "", "own": "1"}
    return MetadataImage(
        configs={(ConfigResourceType.BROKER, names[layer]): values for layer, values in layers.items()}
    )


def test_dynamic_settings_that_contradict_each_other_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A controller stores such settings if a client sends them to it directly."""
    settings = CurrentSettings(make_config({}).parsed)
    dynamic = DynamicConfigs(1, settings)
    good = image_with(default={"log.roll.ms": "7000"})
    bad = image_with(default={"log.roll.ms": "8000"}, own={"max.connections.per.ip": "0"})
    other = image_with(default={"log.roll.ms": "8500"}, own={"max.connections.per.ip": "0"})
    mended = image_with(default={"log.roll.ms": "9000"}, own={"max.connections.per.ip": "9"})
    dynamic.start(good)
    for old, new, roll_ms in ((good, bad, 7000), (bad, other, 7000), (other, mended, 9000)):
        before = dynamic.settings_of(old)["log.roll.ms"]
        assert dynamic.apply(MetadataDelta(old, new))
        assert (settings.values["log.roll.ms"], dynamic.settings_of(new)["log.roll.ms"]) == (roll_ms, roll_ms)
        assert dynamic.settings_of(old)["log.roll.ms"] == before
    assert caplog.text.count("the dynamic configuration could not be applied: ") == 1


def test_a_part_that_cannot_apply_a_change_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    applied: list[float] = []
    apply_each(lambda: applied.append(1 / 0), lambda: applied.append(7))
    assert applied == [7]
    assert "a change of the settings could not be applied" in caplog.text


def test_a_replacement_of_all_broker_configs_is_validated(client: RawClient) -> None:
    wrong = AlterConfigsAlterableConfig(name="num.io.threads", value="100")
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[wrong])
    (answer,) = client.ask(AlterConfigsRequest(resources=[resource]), 2).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "not be greater than double the current value 8" in answer.error_message

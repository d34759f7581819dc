"""Broker configurations sent directly to the controller, which no broker has checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

TOPIC, BROKER = 2, 4
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
DYNAMIC = [name for name, key in BROKER_KEYS.items() if key.dynamic]


SET, APPEND = 0, 2


def ask(client: RawClient, kind: int, resource: str, operation: int, values: dict[str, str]) -> ErrorCode:
    configs = [
        IncrementalAlterConfigsAlterableConfig(name=name, config_operation=operation, value=value)
        for name, value in values.items()
    ]
    requested = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[requested]), 1).responses
    return ErrorCode(answer.error_code)


def alter(client: RawClient, name: str, value: str) -> ErrorCode:
    """Set a configuration as the default of all brokers."""
    return ask(client, BROKER, "", SET, {name: value})


@pytest.mark.parametrize("value", ["nonsense", "-7", "0", "", "a:b,c"])
def test_no_value_of_a_dynamic_setting_ends_a_node(tmp_path: Path, value: str) -> None:
    assert len(DYNAMIC) > 40
    with RunningBroker(tmp_path, SETTINGS) as broker:
        image = broker.server._node.metadata_log
        with RawClient(broker.server._controller.addresses[0]) as controller:  # type: ignore[union-attr]
            taken = [name for name in DYNAMIC if alter(controller, name, value) is ErrorCode.NONE]
        assert "max.connections.per.ip.overrides" in taken
        eventually(lambda: image.image.config_of(BROKER, "").keys() == set(taken), "all is committed")
        broker.call(lambda: None)
        assert not broker.server.failed.done()
    with RunningBroker(tmp_path, SETTINGS) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        assert produce(client, topic, batch(b"x")).error_code == ErrorCode.NONE
        assert not broker.server.failed.done()


def test_a_list_that_becomes_too_long_for_a_record_is_rejected(tmp_path: Path) -> None:
    key = "leader.replication.throttled.replicas"
    first, second = (",".join(f"{index}:1" for index in range(start, start + 4000)) for start in (1000, 5000))
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        assert ask(client, TOPIC, topic, SET, {key: first}) is ErrorCode.NONE
        assert ask(client, TOPIC, topic, APPEND, {key: second}) is ErrorCode.INVALID_REQUEST
        assert produce(client, topic, batch(b"x")).error_code == ErrorCode.NONE
        assert broker.server.services.image.config_of(TOPIC, topic)[key] == first


def test_a_change_that_no_follower_could_take_is_rejected(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        values = {f"unknown.{number}": "x" * 30_000 for number in range(300)}
        assert ask(client, BROKER, "1", SET, values) is ErrorCode.POLICY_VIOLATION
        assert broker.server.services.image.config_of(BROKER, "1") == {}

"""Configurations of brokers that reach the controller directly, where no broker checks them."""

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

BROKER = 4
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
DYNAMIC = [name for name, key in BROKER_KEYS.items() if key.dynamic]


def alter(client: RawClient, name: str, value: str) -> ErrorCode:
    """Set it as the default of all brokers."""
    config = IncrementalAlterConfigsAlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return ErrorCode(answer.error_code)


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

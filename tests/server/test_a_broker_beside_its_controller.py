"""Combined node: no other process can register with its broker's id while the broker runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from kwire.cluster.metadata.features import SUPPORTED
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker


def registration(running: RunningBroker) -> BrokerRegistrationRequest:
    """Return a registration of another process with the ids of this node."""
    server = running.server
    return BrokerRegistrationRequest(
        broker_id=server.config.node_id,
        cluster_id=server._node.storage.cluster_id,
        incarnation_id=UUID(int=7),
        listeners=[BrokerRegistrationListener(name="PLAINTEXT", host="h", port=9092)],
        features=[
            BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ],
        log_dirs=[UUID(int=5007)],
    )


def test_another_broker_cannot_register_with_the_id_of_a_combined_node(tmp_path: Path) -> None:
    running = RunningBroker(
        tmp_path / "data",
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
        },
    )
    try:
        controller = running.server._controller
        assert controller is not None
        broker_epoch = running.server._registrar.broker_epoch()
        with RawClient(controller.addresses[0]) as client:
            for previous_epoch in (-1, broker_epoch):  # clients can find an epoch by counting
                request = replace(registration(running), previous_broker_epoch=previous_epoch)
                assert client.ask(request, 4).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        [broker] = running.server._node.metadata_log.image.brokers.values()
        assert (broker.broker_epoch, broker.fenced) == (broker_epoch, False)
    finally:
        running.stop()

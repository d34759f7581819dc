"""Requests that are short to ask and long to answer: of many that come at once, each has a turn of the event loop."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker

COUNT = 50
DESCRIBED = [DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["num.partitions"])]


@pytest.mark.parametrize(
    ("request_", "version"),
    [(DescribeConfigsRequest(resources=DESCRIBED), 4), (DescribeClientQuotasRequest(components=[], strict=False), 1)],
)
def test_others_have_their_turn_in_a_pipeline(
    broker: RunningBroker, client: RawClient, request_: Any, version: int
) -> None:
    assert client.ask(request_, version) is not None
    port = client.socket.getsockname()[1]
    connections = broker.call(lambda: list(broker.server._listeners.table.connections))
    (connection,) = (each for each in connections if each.peer_port == port)
    turns_with_queue, is_over = 0, False

    def count() -> None:
        nonlocal turns_with_queue
        if connection._frames:
            turns_with_queue += 1
        if not is_over:
            broker._loop.call_soon(count)

    broker.call(count)
    first = client.correlation_id + 1
    client.send_bytes(b"".join(client.frame(request_, version) for _ in range(COUNT)))
    for number in range(first, first + COUNT):
        assert client.receive(request_, version, correlation_id=number) is not None
    is_over = True
    assert turns_with_queue >= COUNT // 2, "the rest of the pipeline waits in its queue meanwhile"

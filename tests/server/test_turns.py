"""Cheap requests with long responses, from real clients: each gets its turns, and each is charged to its client."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.server.network.flow.turns import SLOTS_MAX
from tests.server.test_client_quotas import set_quota
from tests.support.raw_client import RawClient
from tests.support.requests import unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

COUNT = 10


def described(count: int) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=32, resource_name=f"group-{number}", configuration_keys=None)
            for number in range(count)
        ]
    )


def test_pipelined_requests_do_not_block_the_event_loop(broker: RunningBroker, client: RawClient) -> None:
    request = described(500)
    assert client.ask(request, 4) is not None
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
    client.send_bytes(b"".join(client.frame(request, 4) for _ in range(COUNT)))
    for number in range(first, first + COUNT):
        assert client.receive(request, 4, correlation_id=number) is not None
    is_over = True
    assert turns_with_queue >= COUNT // 2, "the rest of the pipeline waits in its queue meanwhile"


def send_no_more(client: RawClient) -> None:
    """Shut the connection down; requests are served to the end, because the client might still read."""
    client.socket.shutdown(socket.SHUT_RDWR)


def reset(client: RawClient) -> None:
    """Reset the connection; all its requests are dropped."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(("leave", "count"), [(send_no_more, 300), (reset, 5000)])
def test_requests_of_disconnected_clients_are_dropped(
    broker: RunningBroker, client: RawClient, leave: Callable[[RawClient], None], count: int
) -> None:
    for _ in range(2 * SLOTS_MAX):
        with broker.client() as hasty:
            hasty.send_bytes(hasty.frame(described(count), 4))
            leave(hasty)
    turns = broker.server._node.runtime.turns
    eventually(lambda: broker.call(lambda: not turns._slots_taken and not turns._queue), "the answers to be forgotten")
    assert len(client.ask(described(300), 4).results) == 300


def test_the_time_of_long_responses_counts_for_the_request_quota(broker: RunningBroker, client: RawClient) -> None:
    name = unique("client")
    set_quota(client, "request_percentage", 0.01, client_id=name)
    with broker.client(client_id=name) as limited:
        assert limited.ask(described(300), 4).throttle_time_ms > 0
    set_quota(client, "request_percentage", None, client_id=name)

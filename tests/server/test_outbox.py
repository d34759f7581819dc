"""Outbox of responses: combined into few writes, sent in order, without long delay for any number and size."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.server.network.outbox import ANSWERS_MAX, SECONDS_MAX, SMALL_BYTES_MAX, Outbox
from tests.support.raw_client import RawClient, sized
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


class Turns:
    """Event loop whose turns a test triggers."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def call_soon(self, call: Any) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Taker:
    """Connection that records its writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write_out(self, buffers: list[bytes]) -> None:
        self.written += buffers


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def outbox(turns: Turns) -> Any:
    return Outbox(turns.call_soon, turns.now)


def test_a_response_is_sent_after_one_loop_iteration_without_requests(outbox: Any, turns: Turns) -> None:
    taker = Taker()
    outbox.put(taker, [b"a"])
    turns.turn()
    assert taker.written == []
    turns.turn()
    assert taker.written == [b"a"]
    assert not turns.calls


def test_answers_wait_while_requests_keep_coming(outbox: Any, turns: Turns) -> None:
    first, second = Taker(), Taker()
    outbox.put(first, [b"a"])
    turns.turn()
    outbox.put(second, [b"b"])
    turns.turn()
    assert first.written == second.written == []
    turns.turn()
    assert (first.written, second.written) == ([b"a"], [b"b"])
    outbox.put(first, [b"c"])
    turns.turn()
    turns.turn()
    assert first.written == [b"a", b"c"]


def test_a_response_is_held_for_a_bounded_time(outbox: Any, turns: Turns) -> None:
    taker, slow = Taker(), Taker()
    outbox.put(taker, [b"a"])
    for _ in range(2):
        turns.turn()
        assert taker.written == []
        outbox.put(slow, [b"."])
        turns.seconds += SECONDS_MAX * 0.75
    turns.turn()
    assert taker.written == [b"a"]
    assert slow.written == [b".."]
    assert not turns.calls
    outbox.put(taker, [b"b"])
    turns.turn()
    assert taker.written == [b"a"], "the time begins anew"
    turns.turn()
    assert taker.written == [b"a", b"b"]


def test_the_answers_of_a_connection_leave_in_one_piece(outbox: Any, turns: Turns) -> None:
    first, second = Taker(), Taker()
    for taker, answer in ((first, b"a"), (second, b"1"), (first, b"b"), (second, b"2"), (first, b"c")):
        outbox.put(taker, [answer])
    turns.turn()
    turns.turn()
    assert (first.written, second.written) == ([b"abc"], [b"12"])


def test_many_responses_are_sent_at_once(outbox: Any, turns: Turns) -> None:
    taker = Taker()
    sent = [bytes([number]) for number in range(ANSWERS_MAX)]
    for answer in sent:
        outbox.put(taker, [answer])
    together = b"".join(sent)
    assert taker.written == [together]
    outbox.put(taker, [b"later"])
    assert len(turns.calls) == 1
    turns.turn()
    assert taker.written == [together]
    turns.turn()
    assert taker.written == [together, b"later"]
    assert not turns.calls


@pytest.mark.parametrize("large", [[b"x" * (SMALL_BYTES_MAX + 1)], [b"head", b"records"]])
def test_a_large_answer_leaves_at_once_behind_those_before_it(outbox: Any, large: list[bytes]) -> None:
    taker = Taker()
    outbox.put(taker, [b"before"])
    outbox.put(taker, large)
    assert taker.written == [b"before", *large]


@pytest.mark.parametrize("requests", [1, 3, 70])
def test_held_responses_are_sent_after_end_of_input(client: RawClient, requests: int) -> None:
    client.send_bytes(client.frame(ApiVersionsRequest(), 0) * requests)
    client.socket.shutdown(socket.SHUT_WR)
    for _ in range(requests):
        assert client.receive(ApiVersionsRequest(), 0).error_code == 0
    assert client.is_closed()


def test_queued_requests_get_responses_after_end_of_input(client: RawClient) -> None:
    """Each request takes longer than a connection's share of a turn, so the end of stream arrives before most are
    served.
    """
    node_id = client.ask(DescribeClusterRequest(), 0).brokers[0].broker_id
    every_setting = DescribeConfigsResource(resource_type=4, resource_name=str(node_id))
    request = DescribeConfigsRequest(resources=[every_setting])
    client.send_bytes(client.frame(request, 1) * 20)
    client.socket.shutdown(socket.SHUT_WR)
    for _ in range(20):
        assert client.receive(request, 1).results[0].error_code == 0
    assert client.is_closed()


def test_a_slow_reader_gets_all_responses_after_end_of_input(broker: RunningBroker) -> None:
    """The responses fill the output buffer, so the remaining requests wait until the client reads."""
    with broker.client(receive_buffer=4096) as client:
        node_id = client.ask(DescribeClusterRequest(), 0).brokers[0].broker_id
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=4, resource_name=str(node_id))], include_documentation=True
        )
        client.send_bytes(client.frame(request, 3) * 200)
        client.socket.shutdown(socket.SHUT_WR)
        connections = broker.server._listeners.table.connections
        port = client.socket.getsockname()[1]
        (connection,) = broker.call(lambda: [each for each in connections if each.peer_port == port])
        eventually(lambda: not connection._writable, "the output buffer to be full")
        for _ in range(200):
            assert client.receive(request, 3).results[0].error_code == 0
        assert client.is_closed()


def test_a_held_answer_is_sent_before_its_connection_is_closed(client: RawClient) -> None:
    """Both requests arrive together; the second one is invalid, and the first one still gets its response."""
    client.send_bytes(client.frame(ApiVersionsRequest(), 0) + sized(b"\x7f\xff" + bytes(8)))
    assert client.receive(ApiVersionsRequest(), 0).error_code == 0
    assert client.is_closed()

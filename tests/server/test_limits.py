"""Limits of connections: request memory, their number, idle time, and muted time."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.seams import SystemClock
from kwire.server.network import listener
from kwire.server.network.connection_limits import BLOCKED_BYTES_MAX
from kwire.server.network.memory.receive_buffer import RECEIVE_BUFFER_BYTES
from kwire.server.network.memory.request_memory import RequestMemory
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig
from kwire.server.requests.services import NodeContext
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch_request, produce, produce_request
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
MEGABYTE = 1024 * 1024
IDLE_SOON = {"connections.max.idle.ms": "100", "connection.failed.authentication.delay.ms": "50"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Start a broker with the minimum budget of request memory."""
    with RunningBroker(
        tmp_path_factory.mktemp("small"),
        {"queued.max.request.bytes": str(MEGABYTE), "socket.request.max.bytes": str(MEGABYTE)},
    ) as running:
        yield running


def paused(broker: RunningBroker) -> int:
    table = broker.server._listeners.table
    return broker.call(lambda: sum("memory" in each._read_pauses for each in table.connections))


def test_row_02_half_frames_of_many_fill_the_budget_and_no_more(small: RunningBroker) -> None:
    clients = [small.client() for _ in range(8)]
    with_room = small.client()
    frames = [client.frame(produce_request("t", b"x" * 900_000), 11) for client in clients]
    for client, frame in zip(clients, frames, strict=True):
        client.send_bytes(frame[: len(frame) // 2])
    eventually(lambda: paused(small) > 0, "readers to be paused")
    assert small.memory_used < MEGABYTE + 2 * MEGABYTE
    assert with_room.ask(VERSIONS, 3).error_code == 0, "a client that holds nothing is served"
    # All requests complete when their clients continue: connections may exceed the budget one after another.
    for client in clients:
        client.socket.setblocking(False)
    rests = {client: frame[len(frame) // 2 :] for client, frame in zip(clients, frames, strict=True)}

    def push() -> bool:
        for client, rest in list(rests.items()):
            try:
                rests[client] = rest[client.socket.send(rest) :]
            except BlockingIOError:
                continue
            if not rests[client]:
                del rests[client]
        return not rests

    eventually(push, "all halves to arrive")
    for client in clients:
        client.socket.settimeout(10)
        answer = client.receive(produce_request("t", b""), 11)
        assert answer.responses[0].partition_responses[0].error_code == 3
        client.close()
    with_room.close()
    assert small.memory_used == 0
    assert paused(small) == 0


def test_half_frames_that_never_end_do_not_stop_a_long_poll(small: RunningBroker) -> None:
    """Connections that hold memory must not prevent other connections from reading."""
    with small.client() as client:
        topic, _ = create_topic(client)
        hogs = [small.client() for _ in range(3)]
        for hog in hogs:
            hog.send_bytes(struct.pack(">i", MEGABYTE) + b"x" * 600_000)
        eventually(lambda: small.memory_used > MEGABYTE, "the budget to be spent")
        for _ in range(3):
            client.ask(fetch_request(topic, max_wait_ms=20), 12)
            produce(client, topic, batch(b"v"))
        for hog in hogs:
            hog.close()
    eventually(lambda: small.memory_used == 0, "the memory to be given back")


class Reader:
    def __init__(self) -> None:
        self.paused = False
        self.has_requests = False

    def has_whole_requests(self) -> bool:
        return self.has_requests

    def pause_for_memory(self) -> None:
        self.paused = True

    def resume_for_memory(self) -> None:
        self.paused = False


def test_one_connection_reads_beyond_the_budget_and_the_next_follows() -> None:
    memory = RequestMemory(100)
    first, second, third = Reader(), Reader(), Reader()
    memory.acquire(first, 60)
    memory.acquire(second, 60)
    memory.acquire(third, 10)
    memory.acquire(first, 10)
    assert (first.paused, second.paused, third.paused) == (True, False, True)
    memory.acquire(second, 40)
    assert not second.paused
    memory.release(second, 10)
    assert (second.paused, third.paused) == (False, False), "the one that waited longest bears on"
    memory.release(second, 90)
    assert memory.used_bytes == 80
    assert not any(reader.paused for reader in (first, second, third))


def test_a_closed_over_budget_connection_lets_the_next_one_read() -> None:
    memory = RequestMemory(100)
    first, second, third = Reader(), Reader(), Reader()
    memory.acquire(first, 90)
    memory.acquire(second, 90)
    memory.acquire(third, 90)
    assert (second.paused, third.paused) == (False, True)
    memory.release(second, 90)
    memory.remove(second)
    assert not third.paused
    memory.remove(third)
    memory.release(first, 90)
    assert memory.used_bytes == 90


def test_a_complete_over_budget_request_is_served_before_the_next_one_is_read() -> None:
    memory = RequestMemory(100)
    first, second = Reader(), Reader()
    memory.acquire(first, 150)
    memory.acquire(second, 60)
    first.has_requests = True
    memory.acquire(first, 150, is_whole=True)
    memory.release(first, 150)
    assert (first.paused, second.paused) == (True, True)
    first.has_requests = False
    memory.release(first, 10)
    assert (first.paused, second.paused) == (True, False)


def test_a_connection_that_holds_no_memory_does_not_keep_the_over_budget_right() -> None:
    memory = RequestMemory(100)
    first, second = Reader(), Reader()
    memory.acquire(first, 110, is_whole=True)
    memory.acquire(second, 110)
    assert (first.paused, second.paused) == (True, True)
    memory.release(first, 110)
    memory.resume_empty(first)
    assert (first.paused, second.paused) == (False, False)


def test_an_over_budget_request_of_a_closed_connection_lets_the_next_one_read() -> None:
    memory = RequestMemory(100)
    first, second, third = Reader(), Reader(), Reader()
    memory.acquire(first, 90)
    memory.acquire(second, 90)
    memory.acquire(third, 90)
    second.has_requests = True
    memory.remove(second)
    assert third.paused
    second.has_requests = False
    memory.release(second, 20)
    assert not third.paused


def test_releasing_more_memory_than_was_acquired_fails() -> None:
    memory = RequestMemory(100)
    memory.acquire(Reader(), 5)
    with pytest.raises(AssertionError):
        memory.release(Reader(), 6)


def test_row_38_connections_over_max_connections_per_ip_are_closed(data_dir: Path) -> None:
    with RunningBroker(data_dir, {"max.connections.per.ip": "3"}) as broker:
        allowed = [broker.client() for _ in range(3)]
        assert all(client.ask(VERSIONS, 3).error_code == 0 for client in allowed)
        with broker.client() as extra:
            assert extra.is_closed()
        allowed.pop().close()
        eventually(lambda: broker.connection_count == 2, "a place to be free")
        with broker.client() as next_one:
            assert next_one.ask(VERSIONS, 3).error_code == 0
        for client in allowed:
            assert client.ask(VERSIONS, 3).error_code == 0
            client.close()


def test_row_38_max_connections_closes_the_one_that_is_idle_longest(data_dir: Path) -> None:
    with RunningBroker(data_dir, {"max.connections": "2"}) as broker:
        waiting, idle = broker.client(), broker.client()
        topic, _ = create_topic(waiting)
        waiting.send_bytes(waiting.frame(fetch_request(topic, max_wait_ms=10_000), 12))
        eventually(lambda: broker.waiters(topic) == 1, "the fetch to wait")
        assert idle.ask(VERSIONS, 3).error_code == 0
        with broker.client() as late:
            assert late.ask(VERSIONS, 3).error_code == 0
            assert idle.is_closed()
            produce(late, topic, batch(b"v"))
            assert waiting.receive(fetch_request(topic), 12).responses
        waiting.close()
        idle.close()


def test_row_39_idle_connections_are_closed_whatever_they_wait_for(data_dir: Path) -> None:
    """Kafka closes them too: a dead client may leave a request that waits for days."""
    with (
        RunningBroker(data_dir, {"connections.max.idle.ms": "400"}) as broker,
        broker.client() as idle,
        broker.client() as waiting,
        broker.client() as active,
    ):
        topic, _ = create_topic(waiting)
        poll = fetch_request(topic, max_wait_ms=2**31 - 1, min_bytes=1)
        waiting.send_bytes(waiting.frame(poll, 12))
        eventually(lambda: active.ask(VERSIONS, 3).error_code == 0 and broker.connection_count == 1, "two to be closed")
        assert idle.is_closed()
        assert waiting.is_closed()


def test_row_40_little_is_read_from_a_connection_whose_request_waits(data_dir: Path) -> None:
    """Otherwise two clients with large requests after a long poll would fill the shared memory budget."""
    with RunningBroker(data_dir) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        poll = fetch_request(topic, max_wait_ms=2**31 - 1, min_bytes=1)
        client.send_bytes(client.frame(poll, 12))
        client.socket.setblocking(False)
        large = client.frame(produce_request(topic, batch(b"x" * 900_000)), 11) * 20
        view, sent = memoryview(large), 0

        def is_full() -> bool:
            nonlocal sent
            with suppress(BlockingIOError):
                while sent < len(view):
                    sent += client.socket.send(view[sent:])
            return broker.call(lambda: any("blocked" in each._read_pauses for each in connections_of(broker)))

        eventually(is_full, "reading to stop")
        assert broker.memory_used <= BLOCKED_BYTES_MAX + RECEIVE_BUFFER_BYTES + 4096
        with broker.client() as other:
            produce(other, topic, batch(b"v"))
        eventually(lambda: not is_full() and sent == len(view), "the rest to be read when the poll is answered")


def connections_of(broker: RunningBroker) -> Any:
    return broker.server._listeners.table.connections


class Throttle(ClientQuotaManager):
    """Quotas that throttle the configured requests."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), config=QuotaConfig())
        self.active = True
        self.ms = 0

    def throttle_ms(self, context: NodeContext, response: Any, request_bytes: int) -> int:
        assert request_bytes > 0
        throttle, self.ms = self.ms, 0
        response.throttle_time_ms = throttle
        return throttle


@pytest.fixture
def throttled(data_dir: Path) -> Iterator[tuple[RunningBroker, Throttle]]:
    with RunningBroker(data_dir) as broker:
        throttle = Throttle()
        dispatcher = broker.server._listeners.first.handle.__self__  # type: ignore[attr-defined]
        broker.call(lambda: setattr(dispatcher, "_quotas", throttle))
        yield broker, throttle


def test_row_41_a_client_gets_its_throttle_time_and_is_muted(
    throttled: tuple[RunningBroker, Throttle],
) -> None:
    broker, throttle = throttled
    with broker.client() as client:
        throttle.ms = 700
        began = time.monotonic()
        assert client.ask(VERSIONS, 3).throttle_time_ms == 700
        assert time.monotonic() - began < 0.6, "the answer itself is not held back"
        assert client.ask(VERSIONS, 3).throttle_time_ms == 0
        assert time.monotonic() - began >= 0.69
        with broker.client() as other:
            assert other.ask(VERSIONS, 3).error_code == 0


def test_a_muted_client_that_left_is_forgotten(data_dir: Path) -> None:
    with RunningBroker(data_dir, IDLE_SOON) as broker:
        throttle = Throttle()
        dispatcher = broker.server._listeners.first.handle.__self__  # type: ignore[attr-defined]
        broker.call(lambda: setattr(dispatcher, "_quotas", throttle))
        throttle.ms = 3_600_000
        with broker.client() as client:
            assert client.ask(VERSIONS, 3).throttle_time_ms == 3_600_000
        eventually(lambda: broker.connection_count == 0, "the connection of a client that does not read to be closed")


def test_muting_counts_pipelined_requests_and_waiting_ones(throttled: tuple[RunningBroker, Throttle]) -> None:
    broker, throttle = throttled
    with broker.client() as client:
        topic, _ = create_topic(client)
        poll = fetch_request(topic, max_wait_ms=20)
        throttle.ms = 300
        frames = [client.frame(poll, 12), client.frame(VERSIONS, 3), client.frame(VERSIONS, 3)]
        client.send_bytes(b"".join(frames))
        first = client.correlation_id - 2
        assert client.receive(poll, 12, correlation_id=first).throttle_time_ms == 300
        began = time.monotonic()
        client.receive(VERSIONS, 3, correlation_id=first + 1)
        client.receive(VERSIONS, 3, correlation_id=first + 2)
        assert time.monotonic() - began > 0.25


def test_row_40_a_slow_reader_is_not_dropped(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        topic, _ = create_topic(client, max_message_bytes=20_000_000)
        client_of = broker.client(receive_buffer=4096)
        assert produce(client, topic, batch(b"x" * 12_000_000))
        poll = fetch_request(topic, partition_max_bytes=20_000_000)
        client_of.send_bytes(client_of.frame(poll, 12))
        connection = eventually(lambda: stuck(broker), "the output to pile up")
        since = broker.call(lambda: connection.blocked_output.since)
        assert not broker.call(lambda: connection.is_stalled(since + 29, 30))
        client_of.socket.recv(MEGABYTE)
        before = broker.call(connection._transport.get_write_buffer_size)
        eventually(lambda: read_some(client_of, broker, connection) < before, "the client to take something")
        assert not broker.call(lambda: connection.is_stalled(since + 31, 30)), "it took something since"
        assert broker.call(lambda: connection.is_stalled(since + 62, 30))
        client_of.close()


def read_some(client: RawClient, broker: RunningBroker, connection: Any) -> int:
    client.socket.recv(4096)
    size: int = broker.call(connection._transport.get_write_buffer_size)
    return size


def stuck(broker: RunningBroker) -> Any:
    table = broker.server._listeners.table
    return broker.call(
        lambda: next((each for each in table.connections if each.blocked_output.since is not None), None)
    )


def test_row_40_a_client_that_leaves_answers_unread_at_the_close_is_dropped(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "STALLED_WRITE_SECONDS", 1.0)
    with RunningBroker(data_dir, IDLE_SOON) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client)
            produce(client, topic, batch(b"x" * 100_000))
        with broker.client(receive_buffer=4096) as reader:

            def has_unsent() -> bool:
                reader.send_bytes(reader.frame(fetch_request(topic), 12))
                connections = broker.server._listeners.table.connections
                return broker.call(lambda: any(each.unsent_bytes for each in connections))

            eventually(has_unsent, "an answer that does not fit into the socket")
            eventually(lambda: broker.connection_count == 0, "the connection to be closed, and then dropped")


def test_a_half_closed_connection_with_waiting_requests_is_closed_when_idle(data_dir: Path) -> None:
    """After the client's end of stream, a request behind a long poll keeps the connection open; a later reset is not
    seen.
    """
    with RunningBroker(data_dir, {"connections.max.idle.ms": "400"}) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client)
            poll = fetch_request(topic, max_wait_ms=2**31 - 1, min_bytes=1)
            client.send_bytes(client.frame(poll, 12) + client.frame(poll, 12))
            eventually(lambda: broker.waiters(topic) == 1, "the long poll")
        eventually(lambda: broker.connection_count == 0, "the connection to be closed")


def test_a_closed_waiting_connection_does_not_get_the_over_budget_right() -> None:
    memory = RequestMemory(100)
    first, second, third, fourth = Reader(), Reader(), Reader(), Reader()
    memory.acquire(first, 90)
    memory.acquire(second, 90)
    memory.acquire(third, 10)
    memory.acquire(fourth, 10)
    assert (second.paused, third.paused, fourth.paused) == (False, True, True)
    memory.remove(third)
    memory.release(second, 90)
    memory.remove(second)
    assert (third.paused, fourth.paused) == (True, False)

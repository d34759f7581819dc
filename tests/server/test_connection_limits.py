"""Connection limits that change while the broker runs, and socket options."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import read_settings
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.server.network.connection_limits import (
    RESERVED_DESCRIPTORS,
    UNLIMITED,
    ConnectionLimits,
    ListenerSettings,
    limits_of,
)
from kwire.server.network.outgoing.addresses import AddressBook, address_of
from kwire.server.settings.setting_rules import connection_overrides
from tests.server.test_configs import BROKER, DELETE, SET, alter
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture
def broker(data_dir: Path) -> Iterator[RunningBroker]:
    with RunningBroker(data_dir) as running:
        yield running


def is_served(broker: RunningBroker) -> bool:
    with broker.client() as another:
        try:
            return bool(another.ask(VERSIONS, 3).error_code == 0)
        except ConnectionError:
            return False


def limits_with(values: dict[str, Any]) -> ConnectionLimits:
    """Return the limits of settings besides the defaults."""
    return limits_of(read_settings(ListenerSettings, default_settings() | values))


def test_row_38_the_limit_of_an_address_changes_at_once(broker: RunningBroker, client: RawClient) -> None:
    assert is_served(broker)
    assert alter(client, BROKER, "", ("max.connections.per.ip", SET, "1")) == 0
    assert not is_served(broker)
    assert alter(client, BROKER, "1", ("max.connections.per.ip.overrides", SET, "127.0.0.1:2")) == 0
    assert is_served(broker), "an address's own limit wins"
    assert alter(client, BROKER, "1", ("max.connections.per.ip.overrides", DELETE, None)) == 0
    assert not is_served(broker)
    assert alter(client, BROKER, "1", ("max.connections.per.ip", SET, "5")) == 0
    assert is_served(broker), "this broker's own value wins over that of all brokers"


def test_the_limit_of_connections_changes_at_once(broker: RunningBroker, client: RawClient) -> None:
    assert alter(client, BROKER, "", ("max.connections", SET, "1")) == 0
    with broker.client() as another:
        assert another.ask(VERSIONS, 3).error_code == 0
        assert client.is_closed(), "the one that was idle longest makes room"


def test_connections_leave_descriptors_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (256, 256))
    assert limits_with({}).connections_max == 256 // 2 - RESERVED_DESCRIPTORS
    assert limits_with({"max.connections": 10}).connections_max == 10
    monkeypatch.setattr("resource.getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert limits_with({}).connections_max == UNLIMITED


def test_row_38_connections_over_the_rate_wait_for_their_turn(broker: RunningBroker, client: RawClient) -> None:
    assert alter(client, BROKER, "", ("max.connection.creation.rate", SET, "4")) == 0
    began = time.monotonic()
    assert all(is_served(broker) for _ in range(6))
    assert time.monotonic() - began > 0.4, "four may come at once, and two more take half a second"


def test_names_of_overridden_addresses_are_looked_up() -> None:
    limits = limits_with({"max.connections.per.ip.overrides": "localhost:7,no.such.host.invalid:8"})
    assert 7 in {limits.max_from("127.0.0.1"), limits.max_from("::1")}
    assert limits.max_from("10.0.0.1") == UNLIMITED


def test_a_host_name_limits_its_first_ipv4_address(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET6, 0, 0, "", ("::1", 0, 0, 0)), (socket.AF_INET, 0, 0, "", ("10.1.1.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert address_of("both") == "10.1.1.1"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found[:1])
    assert address_of("six") == "::1"


def test_a_slow_name_server_does_not_block_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    system, may_answer = socket.getaddrinfo, threading.Event()

    def slow(host: str, port: object, *, flags: int = 0) -> object:
        if flags == socket.AI_NUMERICHOST:
            return system(host, None, flags=flags)
        assert may_answer.wait(15)
        return [(socket.AF_INET, 0, 0, "", ("10.1.1.1", 0))]

    async def main() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", slow)
        book, learnt = AddressBook(), asyncio.Event()
        book.resolve(["10.2.2.2", "::0001", "name"], learnt.set)
        assert [book.find(host) for host in ("10.2.2.2", "::0001", "name")] == ["10.2.2.2", "::1", "name"]
        may_answer.set()
        await asyncio.wait_for(learnt.wait(), 15)
        assert book.find("name") == "10.1.1.1"
        may_answer.clear()
        book.resolve(["name"], learnt.set)
        assert book.find("name") == "10.1.1.1", "what was known counts until the next answer"
        may_answer.set()

    asyncio.run(main())


def test_a_name_without_address_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    book, reported = AddressBook(), []
    book.resolve(["localhost"], lambda: reported.append("known"))
    assert book.find("localhost") in {"127.0.0.1", "::1"}
    monkeypatch.setattr("kwire.server.network.outgoing.addresses.address_of", lambda *_, **__: None)
    book.resolve(["localhost"], lambda: reported.append("gone"))
    assert (book.find("localhost"), reported) == ("localhost", ["known", "gone"])


def test_the_limit_of_a_name_changes_while_the_broker_runs(broker: RunningBroker, client: RawClient) -> None:
    assert alter(client, BROKER, "", ("max.connections.per.ip.overrides", SET, "localhost:1")) == 0
    eventually(lambda: not is_served(broker), "the name's address has its limit")
    assert alter(client, BROKER, "", ("max.connections.per.ip.overrides", DELETE, None)) == 0
    assert is_served(broker)


@pytest.mark.parametrize("name", ["x" * 70, "a..b", "no.such.host.invalid"])
def test_an_override_for_an_invalid_host_name_limits_no_address(data_dir: Path, name: str) -> None:
    for _ in range(2):
        with RunningBroker(data_dir) as broker, broker.client() as client:
            assert alter(client, BROKER, "", ("max.connections.per.ip.overrides", SET, f"{name}:0")) == 0
            assert is_served(broker)


def test_a_count_of_any_length_is_rejected(client: RawClient) -> None:
    for count in ("2147483648", "9" * 5000, "-" + "9" * 5000):
        change = ("max.connections.per.ip.overrides", SET, f"127.0.0.1:{count}")
        assert alter(client, BROKER, "", change, validate_only=True) == ErrorCode.INVALID_REQUEST
    assert connection_overrides("127.0.0.1:" + "0" * 5000 + "7") == {"127.0.0.1": 7}


def test_rates_are_kept_over_time() -> None:
    limits = limits_with({"max.connection.creation.rate": 10})
    assert [limits.rate.delay_ms(5.0) for _ in range(12)] == [0] * 10 + [100, 200]
    assert limits.rate.delay_ms(100.0) == 0
    none = limits_with({"max.connection.creation.rate": 0})
    assert [none.rate.delay_ms(5.0) for _ in range(3)] == [0, 1000, 2000], "one in a second, as in Kafka"
    assert limits_with({}).rate.delay_ms(0.0) == 0


def test_sockets_get_the_buffers_that_were_asked_for(data_dir: Path) -> None:
    settings = {"socket.receive.buffer.bytes": "20000", "socket.send.buffer.bytes": "30000"}
    with RunningBroker(data_dir, settings) as broker, broker.client() as client:
        assert client.ask(VERSIONS, 3).error_code == 0

        def sizes() -> tuple[int, int]:
            (connection,) = broker.server._listeners.table.connections
            transport = connection._transport
            assert transport is not None
            number = transport.get_extra_info("socket").fileno()
            with socket.socket(fileno=os.dup(number)) as own:
                return own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), own.getsockopt(
                    socket.SOL_SOCKET, socket.SO_SNDBUF
                )

        received, sent = broker.call(sizes)
        assert received in {20_000, 40_000}, "Linux doubles the requested size"
        assert sent in {30_000, 60_000}

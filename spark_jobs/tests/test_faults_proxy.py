"""Proxy of the campaign under faults: it drops the responses that a rule selects, and forwards all others."""

import os
import socket
import struct
import threading
from random import Random

import pytest

from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.readiness import read_exactly
from spark_jobs.faults.proxy import Proxy, Rule, process_of

PRODUCE, END_TXN = 0, 26


def request(api_key, client_id=b"sink"):
    frame = struct.pack(">hhih", api_key, 1, 7, len(client_id)) + client_id
    return struct.pack(">i", len(frame)) + frame


@pytest.fixture
def applied():
    """Return the API keys of the requests that reached the broker."""
    return []


@pytest.fixture
def proxy(applied):
    """Return a proxy in front of a server that answers each request with its correlation id."""
    server = socket.create_server((HOST, 0))

    def answer(connection):
        with connection:
            while size := connection.recv(4):
                frame = read_exactly(connection, struct.unpack(">i", size)[0])
                applied.append(struct.unpack_from(">h", frame)[0])
                connection.sendall(struct.pack(">i", 4) + frame[4:8])

    def accept():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    made = Proxy(server.getsockname()[1], free_ports(1)[0])
    made.start()
    yield made
    made.close()
    server.close()


def is_answered(proxy, frame):
    with socket.create_connection((HOST, proxy.port), timeout=10) as client:
        client.sendall(frame)
        try:
            return read_exactly(client, 8) == struct.pack(">ii", 4, 7)
        except ConnectionError:
            return False


def test_selected_responses_are_dropped_after_the_broker_has_applied_the_request(proxy, applied):
    assert is_answered(proxy, request(END_TXN))
    proxy.disturb(Rule(apis=("EndTxn",), client_id="sink", share=1.0, count_max=2), Random(1))
    assert [is_answered(proxy, request(*each)) for each in ((PRODUCE,), (END_TXN, b"input"), (END_TXN,))] == [
        True,
        True,
        False,
    ]
    assert [is_answered(proxy, request(END_TXN)) for _ in range(2)] == [False, True]
    assert proxy.dropped == {"EndTxn": 2}
    assert applied == [END_TXN, PRODUCE, END_TXN, END_TXN, END_TXN, END_TXN]
    proxy.disturb(Rule(apis=("EndTxn",), client_id="sink", share=1.0, count_max=2), Random(1))
    proxy.heal()
    assert is_answered(proxy, request(END_TXN))


def test_the_process_of_a_connection_is_found(proxy):
    with socket.create_connection((HOST, proxy.port), timeout=10) as client:
        assert process_of(client.getsockname()[1], proxy.port) == os.getpid()
    assert process_of(1, proxy.port) is None

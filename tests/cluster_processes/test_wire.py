"""Proxy in front of a broker: delayed requests, overtaking requests, and requests of disconnected clients."""

from __future__ import annotations

import random
import socket
import struct
import threading
from pathlib import Path

import pytest

from tests.cluster_processes.network import Network, why_not
from tests.cluster_processes.wire import BEHIND, Rule, Wire, Wires
from tests.history.journal import Journal
from tests.history.operations import Fault, read
from tests.support.waiting import eventually

PORT = 9092
END_TXN, METADATA = 26, 3


def frame(api_key: int) -> bytes:
    request = struct.pack(">hhih", api_key, 0, 7, 2) + b"me"
    return struct.pack(">i", len(request)) + request


class Listener:
    """Listener of a broker that records the API keys of requests, and responds to each with four bytes."""

    def __init__(self, network: Network) -> None:
        self.arrived: list[int] = []
        with network.inside(1):
            self.socket = socket.create_server((network.address(1), PORT))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:  # the connection is closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while size := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                self.arrived.append(struct.unpack_from(">h", request)[0])
                connection.sendall(b"done")


def test_a_delayed_request_is_overtaken_and_arrives_after_its_client_is_gone(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(f"nothing can be redirected here: {reason}")
    network, journal = Network([1, 2]), Journal(tmp_path / "run.jsonl")
    try:
        listener = Listener(network)
        wires = Wires(network, {}, journal, random.Random(1))
        wire = Wire(wires, 1, (PORT,))
        network.redirect(1, PORT, PORT + BEHIND)
        wires.rules = (Rule(api_keys=frozenset({END_TXN}), seconds=(0.5, 0.5), is_hold=True),)
        with network.inside(2):
            with socket.create_connection((network.address(1), PORT), 5.0) as leaving:
                leaving.sendall(frame(END_TXN))
                eventually(lambda: wires.held[END_TXN], "it is held")
            with socket.create_connection((network.address(1), PORT), 5.0) as other:
                other.sendall(frame(METADATA))
                assert other.recv(4, socket.MSG_WAITALL) == b"done"
        assert listener.arrived == [METADATA]
        eventually(lambda: listener.arrived == [METADATA, END_TXN], "what was held arrives")
        wire.close()
        listener.socket.close()
    finally:
        network.close()
        journal.close()
    [held] = read(tmp_path / "run.jsonl")
    assert isinstance(held, Fault)
    assert (held.what, held.transactional_id, held.outcome) == ("hold", "me", "ok")

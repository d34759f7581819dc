"""Broker of a run: kwire or Apache Kafka in a separate process, reached through the proxy."""

from __future__ import annotations

import signal
from pathlib import Path

from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.process import BrokerProcess
from compat_tests.harness.reference import ApacheKafka
from tests.history.clients.common import COPIES, PARTITIONS, TOPIC
from tests.history.journal import Journal
from tests.history.wire import Wire
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic

KINDS: dict[str, type[BrokerProcess]] = {"kwire": KwireBroker, "kafka": ApacheKafka}
SETTINGS = {
    # Apache Kafka must not fence the broker during a pause, because its partitions would have no leader.
    "broker.session.timeout.ms": "5000",
    # Transactions of dead clients end soon enough for the history.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Cluster:
    """A broker that advertises the proxy's address."""

    def __init__(self, kind: str, directory: Path, journal: Journal) -> None:
        port, wire_port = free_ports(2)
        directory.mkdir(parents=True)
        self.broker = KINDS[kind](directory, port)
        self.wire = Wire(port, wire_port, journal)

    def start(self) -> None:
        self.broker.prepare()
        self._advertise()
        self.broker.prepare = lambda: None  # type: ignore[method-assign] # what is written stays
        self.wire.start()
        self.broker.start()
        with RawClient(self.direct) as client:
            for topic in (TOPIC, COPIES):
                create_topic(client, PARTITIONS, name=topic)

    def _advertise(self) -> None:
        path = self.broker.directory / "server.properties"
        settings = dict(line.split("=", 1) for line in path.read_text().splitlines())
        settings |= SETTINGS | {"advertised.listeners": f"PLAINTEXT://{self.bootstrap_server}"}
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    @property
    def bootstrap_server(self) -> str:
        """Return the address of the proxy."""
        return f"{HOST}:{self.wire.port}"

    @property
    def direct(self) -> str:
        return self.broker.bootstrap

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.broker.process is not None and self.broker.process.poll() is None:
            self.broker.process.send_signal(number)

    def close(self) -> None:
        self.resume()
        self.broker.kill()
        self.wire.close()

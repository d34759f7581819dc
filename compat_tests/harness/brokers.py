"""Choice of the broker for a run: kwire, Apache Kafka, or one that is already running."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.process import BrokerProcess
from compat_tests.harness.reference import ApacheKafka

BROKERS: dict[str, type[BrokerProcess]] = {"kwire": KwireBroker, "kafka": ApacheKafka}


class RunningBroker:
    """Broker that this run did not start: it has an address, and tests that would restart it are skipped."""

    name = "running"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def new_broker(name: str, directory: Path) -> BrokerProcess:
    return BROKERS[name](directory, free_ports(1)[0])


@contextmanager
def started_broker(
    name: str, directory: Path, more_settings: Mapping[str, str] | None = None
) -> Iterator[BrokerProcess]:
    """Start a broker; stop it at the end of the block."""
    broker = new_broker(name, directory)
    broker.more_settings = more_settings or {}
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()

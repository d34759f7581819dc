"""Brokers that start on directories of the other implementation."""

import shutil
from pathlib import Path

from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.process import BrokerProcess
from compat_tests.harness.reference import ApacheKafka


class KafkaAsItIs(ApacheKafka):
    """Apache Kafka on a directory that is formatted already."""

    def prepare(self) -> None:
        self.write_settings()


def on_copy_of(data: Path, name: str, home: Path) -> BrokerProcess:
    """Return a broker, not started, with its own copy of the data that a stopped or killed broker left."""
    home.mkdir()
    shutil.copytree(data, home / "data", ignore=shutil.ignore_patterns(".lock"))
    broker = {"kwire": KwireBroker, "kafka": KafkaAsItIs}[name]
    return broker(home, free_ports(1)[0])

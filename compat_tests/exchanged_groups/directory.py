"""Directory at one address, served by Apache Kafka and by the tested broker in turn."""

from collections.abc import Mapping
from pathlib import Path

from compat_tests.group_script.pair import ASSIGNED_AT_ONCE
from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.process import BrokerProcess
from compat_tests.harness.reference import ApacheKafka
from compat_tests.log_format.taking_over import KafkaAsItIs

SETTINGS: Mapping[str, str] = {
    # A killed broker may register again only after its old session has expired.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # Members stay in their groups; those that vanish are in groups with a session timeout of their own, which is short.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.max.session.timeout.ms": "300000",
    "group.consumer.session.timeout.ms": "300000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.max.session.timeout.ms": "300000",
    "group.share.session.timeout.ms": "300000",
    "group.streams.max.session.timeout.ms": "300000",
    "group.streams.session.timeout.ms": "300000",
    "group.share.max.record.lock.duration.ms": "300000",
    "group.share.record.lock.duration.ms": "300000",
    # Brokers load a snapshot of a share partition with the updates after it.
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    **ASSIGNED_AT_ONCE,
    "auto.create.topics.enable": "false",
}


class Exchanged:
    """Directory that one broker after the other serves; the first one formats it."""

    def __init__(self, home: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        home.mkdir(parents=True)
        self.home, self.settings = home, settings
        self.port = free_ports(1)[0]
        self.broker: BrokerProcess | None = None

    def serve(self, kind: str) -> BrokerProcess:
        """Start a broker of this kind and wait until it answers."""
        assert self.broker is None
        kafka = KafkaAsItIs if (self.home / "data").exists() else ApacheKafka
        self.broker = {"kwire": KwireBroker, "kafka": kafka}[kind](self.home, self.port)
        self.broker.more_settings = self.settings
        self.broker.start()
        return self.broker

    def end(self, *, clean: bool) -> None:
        """Stop or kill the broker that serves the directory."""
        broker, self.broker = self.broker, None
        if broker is None:
            return
        if clean:
            broker.stop()
        else:
            broker.kill()

"""Broker in a separate process: started, stopped, killed and restarted on one directory."""

import contextlib
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from compat_tests.harness.ports import HOST
from compat_tests.harness.readiness import is_ready
from compat_tests.harness.waiting import eventually

START_SECONDS = 60.0
STOP_SECONDS = 40.0

#: Settings that make a single broker fast to test; Apache Kafka and kwire both get them.
SETTINGS: Mapping[str, str] = {
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    # Abort expired transactions soon after their timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # Members of consumer, share and streams groups learn of a new assignment at their next heartbeat.
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "200",
    # Write a metadata change at once, without waiting for more changes.
    "controller.quorum.append.linger.ms": "0",
    # Records have fixed timestamps, so that retention would delete them during a run.
    "log.initial.task.delay.ms": "3600000",
}

#: Internal topics have three replicas, one of which may be missing; clusters of both kinds get these settings.
REPLICATED: Mapping[str, str] = {
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


class BrokerProcess:
    """Broker with a fixed port and directory. Subclasses define its configuration and command line."""

    name = "broker"

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self.more_settings: Mapping[str, str] = {}
        """Settings that this broker has besides SETTINGS."""

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def prepare(self) -> None:
        """Create what the first start needs: settings files, formatted directories."""
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        self.launch()
        eventually(self._answers, f"{self.name} answers on {self.bootstrap}", START_SECONDS)

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.process is None:
            self.prepare()
        with (self.directory / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self.directory
            )

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise SystemExit(f"{self.name} ended with status {self.process.returncode}:\n{self.output()[-4000:]}")
        return is_ready((HOST, self.port))

    def stop(self) -> None:
        """Shut down cleanly with SIGTERM, as an administrator does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill with kill -9: the broker flushes and closes nothing."""
        self._end(signal.SIGKILL)

    def restart(self, *, clean: bool = True) -> None:
        if clean:
            self.stop()
        else:
            self.kill()
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS)
            raise AssertionError(f"{self.name} did not end within {STOP_SECONDS} s of {number.name}") from None

    def output(self) -> str:
        return (self.directory / "output.txt").read_text(errors="replace")


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

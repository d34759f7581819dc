"""The two compared brokers as their projects ship them, and the CPU time and memory of their processes."""

import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.paths import ROOT
from compat_tests.harness.ports import free_ports
from compat_tests.harness.process import BrokerProcess
from compat_tests.harness.reference import ApacheKafka, class_path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


_OF_THE_CHECKOUT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from kwire.cli import main; main(prog_name='kwire')"
PROGRAMS = {
    "kwire": [sys.executable, "-P", "-m", "kwire"],
    "kwire-pure": [sys.executable, "-P", "-c", _OF_THE_CHECKOUT],
}
"""Command line of each kwire variant; -P keeps the checkout's own sources off the import path."""


class KwireAsShipped(KwireBroker):
    """The compiled wheel of kwire, as pip installs it on this kind of machine."""

    def command(self) -> list[str]:
        return [*PROGRAMS["kwire"], "server", str(self.properties)]


class KwirePure(KwireBroker):
    """The plain Python sources of the checkout, which run where no compiled wheel is available."""

    def command(self) -> list[str]:
        return [*PROGRAMS["kwire-pure"], "server", str(self.properties)]


class KafkaAsShipped(ApacheKafka):
    """Apache Kafka with the heap and garbage collector of bin/kafka-server-start.sh."""

    @staticmethod
    def java(main: str) -> list[str]:
        options = "-Xmx1G -Xms1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
        return ["java", *options.split(), "-XX:+ExplicitGCInvokesConcurrent", "-cp", class_path(), main]


BROKERS: dict[str, type[BrokerProcess]] = {
    "kwire": KwireAsShipped,
    "kafka": KafkaAsShipped,
    "kwire-pure": KwirePure,
}
COMPARED = ("kwire", "kafka")


class Run:
    """A broker with a fresh directory, for one round of measurements."""

    def __init__(self, name: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"kwire-bench-{name}-"))
        self.broker = BROKERS[name](self.directory, free_ports(1)[0])

    def __enter__(self) -> Self:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.broker.prepare()
        self.broker.prepare = lambda: None  # type: ignore[method-assign]  # formatting is not part of a start
        started = time.perf_counter()
        self.broker.start()
        self.start_seconds = time.perf_counter() - started
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _proc(self) -> Path:
        assert self.broker.process is not None
        return Path(f"/proc/{self.broker.process.pid}")

    def resident_megabytes(self) -> float:
        return int((self._proc / "statm").read_text().split()[1]) * PAGE_BYTES / 1e6

    def cpu_seconds(self) -> float:
        """Return the user and system time that the broker's process has used so far."""
        assert self.broker.process is not None
        return cpu_seconds(self.broker.process.pid)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of another process from its CPU clock, which is more precise than the ticks of /proc."""
    return time.clock_gettime(~pid << 3 | 2)

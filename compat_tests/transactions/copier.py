"""Kafka's TransactionalMessageCopier, which is restarted while it and its broker are killed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.harness.reference import class_path

MAIN = "org.apache.kafka.tools.TransactionalMessageCopier"
JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Dlog4j2.level=OFF")
TRANSACTION_SIZE = 750
TRANSACTION_TIMEOUT_MS = 8000
"""Timeout of a killed copier's last transaction: its successor requests offsets before it fences, so it must wait."""
STARTS_MAX = 20


class Copier:
    """Copier of one partition; it is restarted until it reports that nothing is left."""

    def __init__(self, bootstrap: str, source: str, target: str, partition: int, output: Path) -> None:
        self.arguments = [
            *("--broker-list", bootstrap, "--input-topic", source, "--input-partition", str(partition)),
            *("--output-topic", target, "--consumer-group", f"{source}-group"),
            *("--transactional-id", f"{source}-{partition}", "--transaction-size", str(TRANSACTION_SIZE)),
            *("--transaction-timeout", str(TRANSACTION_TIMEOUT_MS), "--use-group-metadata"),
        ]
        self.output = output
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        assert self.starts <= STARTS_MAX, self.output.read_text()[-3000:]
        with self.output.open("ab") as sink:
            command = ["java", *JVM, "-cp", class_path(), MAIN, *self.arguments]
            self.process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)

    def is_done(self) -> bool:
        """Return True if it ended with success. A copier that failed, for example without a broker, is restarted."""
        assert self.process is not None
        status = self.process.poll()
        if status is None or status == 0:
            return status == 0
        self.start()
        return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@contextmanager
def copying(copiers: list[Copier]) -> Iterator[None]:
    try:
        for copier in copiers:
            copier.start()
        yield
    finally:
        for copier in copiers:
            if copier.process is not None:
                copier.kill()

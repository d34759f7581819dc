"""Kafka's TransactionalMessageCopier, kept at work while it and its broker are killed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.harness.reference import class_path

MAIN = "org.apache.kafka.tools.TransactionalMessageCopier"
JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Dlog4j2.level=OFF")
TRANSACTION_SIZE = 750
TRANSACTION_TIMEOUT_MS = 8000
"""A copier that was killed finds its offsets only when its last transaction is over, and asks before it fences it."""
STARTS_MAX = 20


class Copier:
    """Copies one partition; started again until it says that nothing is left."""

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
        """Whether it ended well. One that gave up, as when its broker was away for too long, is started again."""
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

"""WordCount.java as a process on one broker, with Kafka Streams' own state directory."""

import subprocess
from pathlib import Path

from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.harness.waiting import eventually
from compat_tests.old_clients.installing import java_jars, java_program

SOURCE = Path(__file__).with_name("WordCount.java")
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")
SECONDS_MAX = 120


class WordCount:
    """Instance of the application; a restarted one continues with its state."""

    def __init__(self, *arguments: str, scratch: Path) -> None:
        self.scratch = scratch
        self.arguments = [*arguments, str(scratch / "state")]
        self.output = scratch / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        jars = java_jars("kafka-streams", KAFKA_VERSION)
        class_path = f"{java_program(SOURCE, jars)}:{jars}/*"
        self.output.write_bytes(b"")
        with self.output.open("ab") as sink:
            command = ["java", *JVM, "-cp", class_path, "WordCount", *self.arguments]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.STDOUT)
        eventually(self.is_running, "the application runs", SECONDS_MAX)

    def is_running(self) -> bool:
        return "RUNNING" in self.output.read_text().splitlines()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Close the application by the end of its input; it must exit by itself with status 0."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(SECONDS_MAX) == 0, self.output.read_text()[-3000:]

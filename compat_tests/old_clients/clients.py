"""Old clients as programs with a common command language, which OldClient.java describes."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.harness.waiting import eventually
from compat_tests.old_clients.installing import java_client, java_program, python_client

HERE = Path(__file__).parent
SECONDS_MAX = 60
JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")
SNAPPY_AND_LZ4 = "python-snappy lz4 crc32c"


@dataclass(frozen=True, slots=True)
class OldClient:
    name: str
    codecs: tuple[str, ...]

    def program(self) -> list[str]:
        kind, _, version = self.name.rpartition("-")
        if kind == "java":
            jars = java_client(version)
            classes = java_program(HERE / "OldClient.java", jars)
            return ["java", *JVM, "-cp", f"{classes}:{jars}/*", "OldClient"]
        more = SNAPPY_AND_LZ4 if kind == "kafka-python" else ""
        python = python_client(f"{kind}=={version} {more}".strip())
        return [str(python), str(HERE / f"{kind.replace('-', '_')}_client.py")]

    def run(self, *arguments: object) -> list[list[str]]:
        """Run the program; return its output as lines of words."""
        command = [*self.program(), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return [line.split() for line in done.stdout.splitlines()]

    @contextmanager
    def member(self, scratch: Path, *arguments: str) -> Iterator["RunningMember"]:
        output = scratch / f"member-{len(list(scratch.iterdir()))}.txt"
        with output.open("wb") as sink:
            command = [*self.program(), "member", *arguments]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.STDOUT)
        try:
            yield RunningMember(output)
        finally:
            process.stdin.close()
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.returncode == 0, output.read_text()


@dataclass(frozen=True, slots=True)
class RunningMember:
    output: Path

    def assigned(self) -> frozenset[str]:
        """Return the newest assignment."""
        reported = [line.split() for line in self.output.read_text().splitlines() if line.startswith("assigned")]
        return frozenset(reported[-1][1].split(",")) if reported and len(reported[-1]) > 1 else frozenset()


def wait_for_shares(members: Sequence[RunningMember], sizes: Sequence[int]) -> None:
    def shared() -> bool:
        assigned = [each.assigned() for each in members]
        return [len(each) for each in assigned] == list(sizes) and len(frozenset().union(*assigned)) == sum(sizes)

    eventually(shared, f"partitions shared as {sizes}", 40)


ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = (
    OldClient("java-1.1.1", ALL_CODECS[:4]),
    OldClient("java-2.1.1", ALL_CODECS),
    OldClient("java-2.8.2", ALL_CODECS),
    OldClient("java-3.9.1", ALL_CODECS),
    OldClient("kafka-python-2.0.2", ALL_CODECS[:4]),
    OldClient("confluent-kafka-2.0.2", ALL_CODECS),
)

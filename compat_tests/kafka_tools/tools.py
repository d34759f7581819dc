"""Apache Kafka's command line tools by the names of its scripts; each runs in its own JVM, as from the scripts.

An archive of loaded classes, created once in a run, halves the start time of a JVM.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.harness.reference import class_path
from compat_tests.harness.waiting import eventually

TOOLS = "org.apache.kafka.tools"
MAINS = {
    "kafka-acls": f"{TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{TOOLS}.ClientMetricsCommand",
    "kafka-cluster": f"{TOOLS}.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{TOOLS}.ConsoleProducer",
    "kafka-consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "kafka-delegation-tokens": f"{TOOLS}.DelegationTokenCommand",
    "kafka-delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "kafka-e2e-latency": f"{TOOLS}.EndToEndLatency",
    "kafka-features": f"{TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{TOOLS}.GetOffsetShell",
    "kafka-groups": f"{TOOLS}.GroupsCommand",
    "kafka-leader-election": f"{TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": f"{TOOLS}.ReplicaVerificationTool",
    "kafka-share-groups": f"{TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": f"{TOOLS}.StreamsResetter",
    "kafka-streams-groups": f"{TOOLS}.streams.StreamsGroupCommand",
    "kafka-topics": f"{TOOLS}.TopicCommand",
    "kafka-transactions": f"{TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{TOOLS}.VerifiableProducer",
}
BOOTSTRAP_OPTION = {"kafka-replica-verification": "--broker-list"}
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Dlog4j2.level=OFF")
SECONDS_MAX = 60
STACK_FRAME = re.compile(r"^\s+(at |\.\.\. \d+ more)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Output of one run of a tool, without the stack traces of the error stream."""

    status: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def said(self) -> str:
        return self.output + self.errors


class ToolBox:
    """Tools that run against one broker."""

    def __init__(self, bootstrap: str, archive: Path | None) -> None:
        self.bootstrap = bootstrap
        self.archive = archive

    def command(self, tool: str, arguments: Sequence[str]) -> list[str]:
        archive = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []
        address = [BOOTSTRAP_OPTION.get(tool, "--bootstrap-server"), self.bootstrap]
        # A subcommand comes before its options.
        first = next((at for at, each in enumerate(arguments) if each.startswith("-")), len(arguments))
        if tool == "kafka-cluster":
            return [*self._java(archive, tool), *arguments[:first], *address, *arguments[first:]]
        return [*self._java(archive, tool), *address, *arguments]

    @staticmethod
    def _java(archive: Sequence[str], tool: str) -> list[str]:
        return ["java", *JVM, *archive, "-cp", class_path(), MAINS[tool]]

    def start(self, tool: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(tool, arguments),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TZ": "UTC"},
        )

    def finish(self, process: subprocess.Popen[str], text: str | None = None) -> Ran:
        try:
            output, errors = process.communicate(text, timeout=SECONDS_MAX)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        kept = [line for line in errors.splitlines(keepends=True) if not STACK_FRAME.match(line)]
        return Ran(status=process.returncode, output=output, errors="".join(kept))

    def run(self, tool: str, *arguments: str) -> Ran:
        return self.finish(self.start(tool, *arguments))

    @contextmanager
    def running(self, scratch: Path, tool: str, *arguments: str, until: str) -> Iterator[Path]:
        """Run a tool until the end of the block, which starts when the output contains the text `until`."""
        output = scratch / f"{tool}-{self.bootstrap.rpartition(':')[2]}-{len(list(scratch.iterdir()))}.txt"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                self.command(tool, arguments), stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        try:
            eventually(lambda: until in output.read_text(), f"{tool} says {until!r}", SECONDS_MAX)
            yield output
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def class_archive(bootstrap: str, directory: Path) -> Path | None:
    """Return a file with the classes that a tool loads, which later JVMs map; None if this JVM cannot create one."""
    archive = directory / "tools.jsa"
    option = [f"-XX:ArchiveClassesAtExit={archive}", "-cp", class_path(), MAINS["kafka-consumer-groups"]]
    arguments = ["--bootstrap-server", bootstrap, "--list"]
    subprocess.run(["java", *JVM, *option, *arguments], capture_output=True, timeout=SECONDS_MAX, check=False)
    return archive if archive.exists() else None

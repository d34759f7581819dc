"""Apache Kafka, the reference: downloaded once from Maven Central, then run as one broker in KRaft combined mode."""

import fcntl
import shutil
import subprocess
from pathlib import Path

from compat_tests.harness.install import install
from compat_tests.harness.paths import CACHE
from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.process import SETTINGS, BrokerProcess, write_properties

KAFKA_VERSION = "4.3.1"
HOME = CACHE / f"kafka-{KAFKA_VERSION}"
CLUSTER_ID = "kwireCompatReference00"

ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-core", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)

JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kwire.compat</groupId><artifactId>reference</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def class_path() -> str:
    """Return the class path; download missing jars. A lock lets concurrent runs share one cache."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (HOME / "complete").exists():
            _fetch()
    return f"{HOME / 'lib'}/*"


def _fetch() -> None:
    install("kafka")
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    (HOME / "pom.xml").write_text(pom())
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={HOME / 'lib'}"]
    subprocess.run(["mvn", "-q", "-B", "-f", str(HOME / "pom.xml"), *goal], check=True)
    (HOME / "complete").touch()


class ApacheKafka(BrokerProcess):
    name = "kafka"

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory, port)
        self.properties = directory / "server.properties"

    def prepare(self) -> None:
        self.write_settings()
        arguments = ["format", "--standalone", "-t", CLUSTER_ID, "-c", str(self.properties)]
        subprocess.run([*self.java("kafka.tools.StorageTool"), *arguments], check=True, stdout=subprocess.DEVNULL)

    def write_settings(self) -> None:
        (controller_port,) = free_ports(1)
        controller = f"{HOST}:{controller_port}"
        own = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.bootstrap.servers": controller,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            # A killed broker may register again only after its old session has expired: 9 s by default.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "500",
        }
        write_properties(self.properties, {**own, **SETTINGS, **self.more_settings})

    def command(self) -> list[str]:
        return [*self.java("kafka.Kafka"), str(self.properties)]

    @staticmethod
    def java(main: str) -> list[str]:
        return ["java", *JVM, "-cp", class_path(), main]

"""Java client 4.3.1 as a process that executes commands line by line; Clients.java describes them."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.harness.reference import class_path

SOURCE = Path(__file__).with_name("Clients.java")
JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Dlog4j2.level=OFF")
BACK_OFF = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}


class JavaError(Exception):
    """Exception of the Java client: `kind` is its class."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class JavaClients:
    """Named producers and consumers in one JVM."""

    def __init__(self, process):
        self.process = process

    def tell(self, what, name, **more):
        self.process.stdin.write(json.dumps({"do": what, "as": name} | more) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["result"]

    def producer(self, bootstrap, name, **settings):
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self.tell("producer", name, settings={"bootstrap.servers": bootstrap} | BACK_OFF | dotted)
        return name

    def consumer(self, bootstrap, name, *, isolation="read_committed", places=None, topics=None, **settings):
        own = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "earliest"} | BACK_OFF
        dotted = {key.replace("_", "."): value for key, value in settings.items()} | {"enable.auto.commit": "false"}
        reads = {"topics": topics} if topics else {"places": places}
        self.tell("consumer", name, settings=own | dotted, **reads)
        return name

    def send(self, name, topic, values, partition=0):
        return self.tell("send", name, topic=topic, partition=partition, values=[str(each) for each in values])

    def read(self, name, count, milliseconds=30_000):
        """Return (topic, partition, offset, value) of `count` records, or of fewer if the time is over."""
        return self.tell("read", name, count=count, ms=milliseconds)

    def read_places(self, bootstrap, name, places, count, isolation="read_committed"):
        """Read each partition until `count` values arrived; return the values by partition."""
        self.consumer(bootstrap, name, isolation=isolation, places=places)
        values = {}
        for topic, partition, _, value in self.read(name, count):
            values.setdefault((topic, partition), []).append(value.encode())
        self.tell("close", name)
        return values


@contextmanager
def running_clients() -> Iterator[JavaClients]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = ["java", *JVM, "-cp", class_path(), str(SOURCE)]
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield JavaClients(process)
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()

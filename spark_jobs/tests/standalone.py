"""Standalone Spark cluster on this machine: a master and workers as processes, on the loopback interface.

A kill ends a worker together with its executors, as the end of a machine does. Their Python processes end with them.
"""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pyspark

from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.waiting import eventually

START_SECONDS = 180.0
STOP_SECONDS = 30.0
HOME = Path(pyspark.__file__).parent
WORKER_MEMORY = "1g"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that does not live long enough to gain from the second compiler."""
SETTINGS = {
    "spark.driver.bindAddress": HOST,
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.driver.host": HOST,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.executor.memory": "768m",
}
"""Settings of a driver on this machine, and of its executors."""


class StandaloneCluster:
    """Master and workers, each worker with one core."""

    def __init__(self, directory, workers=1, **environment):
        """`environment` is that of the workers, besides the variables of this process without PYTHONPATH."""
        self.directory = directory
        self.port, self.web_port = free_ports(2)
        own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
        own["SPARK_DAEMON_JAVA_OPTS"] = SHORT_LIVED
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.environment |= own | environment
        self.processes = dict.fromkeys(["master", *range(1, workers + 1)])

    @property
    def url(self):
        return f"spark://{HOST}:{self.port}"

    def start(self):
        self._launch(
            "master", "master.Master", "--host", HOST, "--port", str(self.port), "--webui-port", str(self.web_port)
        )
        eventually(self.status, "the master answers", START_SECONDS)
        for number in self.processes:
            if number != "master":
                self.start_worker(number)
        self.await_workers()

    def start_worker(self, number):
        options = ("--host", HOST, "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0")
        scratch = self.directory / f"worker-{number}"
        self._launch(number, "worker.Worker", *options, "--work-dir", str(scratch), self.url)

    def kill_worker(self, number):
        """Kill a worker and its executors with kill -9."""
        self._end(number, signal.SIGKILL)

    def stop(self):
        for name in reversed(self.processes):
            self._end(name, signal.SIGTERM)

    def status(self):
        """Return the state of the workers and applications, as the master reports it."""
        with urlopen(f"http://{HOST}:{self.web_port}/json/", timeout=STOP_SECONDS) as answer:
            return json.load(answer)

    def await_workers(self):
        wanted = len(self.processes) - 1
        eventually(lambda: self.status()["aliveworkers"] == wanted, f"{wanted} workers are registered", START_SECONDS)

    def await_executors(self, count):
        """Wait until the application has executors on so many workers."""

        def has_all():
            (application,) = self.status()["activeapps"]
            return application["cores"] == count

        eventually(has_all, f"the application has {count} cores", START_SECONDS)

    def output(self):
        """Return the end of what each process has said, for a failure."""
        paths = sorted(self.directory.glob("*.txt")) + sorted(self.directory.glob("worker-*/*/*/stderr"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in paths)

    def _launch(self, name, main, *options):
        self.directory.mkdir(exist_ok=True)
        with (self.directory / f"{name}.txt").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                cwd=self.directory,
            )

    def _end(self, name, number):
        process = self.processes[name]
        if process is None:
            return
        own = [process.pid, *children(process.pid)]
        for each in own:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)
        try:
            process.wait(STOP_SECONDS)
        finally:
            for each in own:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            process.wait(STOP_SECONDS)
            self.processes[name] = None


def children(pid):
    """Return the process ids of a process's children; any of its threads may have started one."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for path in lists for each in path.read_text().split()]

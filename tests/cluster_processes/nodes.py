"""Controller processes, each in its own network namespace, with its own directory or its own small disk."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kwire.cluster.directory import META_PROPERTIES
from kwire.log.disk import DiskFailure
from tests.campaign.ext4 import FileSystem
from tests.cluster_processes.network import Network
from tests.support.processes import CONTROLS, SECONDS, command
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

PORT = 9093
FROM_THE_ONE_ABOVE = "The above exception was the direct cause of"
DISK_FAILURE = f"{DiskFailure.__module__}.{DiskFailure.__name__}"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class ControllerNode:
    """Controller: its settings, its directory, its process."""

    def __init__(
        self, node_id: int, network: Network, scratch: Path, settings: Mapping[str, str], *, disk: FileSystem | None
    ) -> None:
        self.node_id = node_id
        self.disk = disk
        self.data = (disk.directory if disk is not None else scratch) / "data"
        self.said = scratch / "said.log"
        self.properties = scratch / "server.properties"
        self.is_paused = False
        self._network = network
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0
        given = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in {**given, **settings}.items()))

    @property
    def host(self) -> str:
        return self._network.address(self.node_id)

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def directory_id(self) -> str:
        """Return the id of the formatted directory."""
        lines = (self.data / META_PROPERTIES).read_text().splitlines()
        return next(line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id="))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_ended_by_itself(self) -> bool:
        """Return True if it was started and its process has ended unexpectedly."""
        return self._process is not None and self._process.poll() is not None

    @property
    def is_answering(self) -> bool:
        return self.is_running and not self.is_paused

    # --- start and stop

    def format(self, *arguments: str) -> None:
        asked = [*self.formatter(), "-c", str(self.properties), "-t", CLUSTER_ID, *arguments]
        subprocess.run(asked, check=True, capture_output=True, text=True, timeout=SECONDS)

    def formatter(self) -> list[str]:
        """Return the command that formats directories."""
        return [sys.executable, "-m", "kwire", "format"]

    def program(self) -> list[str]:
        """Return the command of the node's process."""
        return command(str(self.properties))

    def start(self) -> None:
        """Start the process; call `wait_until_ready` afterwards."""
        assert not self.is_running
        self._said_before = self.said.stat().st_size if self.said.exists() else 0
        asked = self._network.command(self.node_id, *self.program())
        with self.said.open("ab") as output:
            # A separate session: the kernel continues paused processes when their process group loses its last shell.
            self._process = subprocess.Popen(asked, stdout=output, stderr=output, start_new_session=True)

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.is_running, f"controller {self.node_id} did not start: {self.last_words()}"
            return CONTROLS in self.said_since_start()

        eventually(is_ready, f"controller {self.node_id} serves", SECONDS)

    def kill(self) -> None:
        """Kill the process with kill -9, unless it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(SECONDS)
            self._process = None
            self.is_paused = False

    def terminate(self) -> int:
        """Stop the process cleanly and return its exit status."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(SECONDS)
        self._process = None
        return status

    def pause(self) -> None:
        assert self._process is not None
        self.is_paused = True
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.is_paused:
            assert self._process is not None
            self._process.send_signal(signal.SIGCONT)
            self.is_paused = False

    def wipe(self) -> None:
        """Replace the disk by an empty one: the directory gets another id, and has no voters."""
        assert not self.is_running
        shutil.rmtree(self.data)
        self.format("--no-initial-controllers")

    # --- output

    def inside(self) -> AbstractContextManager[None]:
        """Create sockets of this thread in the node's network, where no cut separates them from the node."""
        return self._network.inside(self.node_id)

    def connect(self, seconds: float) -> RawClient:
        """Return a client that no network cut separates from this node. Raises OSError."""
        with self.inside():
            client = RawClient(self.address)
        client.socket.settimeout(seconds)
        return client

    def ask(self, request: Any, version: int, seconds: float) -> Any:
        with self.connect(seconds) as client:
            return client.ask(request, version)

    def last_words(self) -> str:
        return self.said_since_start()[-2000:]

    def failures(self) -> list[str]:
        """Return the internal errors in its log."""
        return failures_in(self.said.read_text(errors="replace"))

    def said_since_start(self) -> str:
        """Return its output since the start."""
        with self.said.open("rb") as file:
            file.seek(self._said_before)
            return file.read().decode(errors="replace")


def revive(nodes: Iterable[ControllerNode]) -> None:
    """Start nodes that do not run, continue paused ones, and return when all serve."""
    nodes = list(nodes)
    stopped = [node for node in nodes if not node.is_running]
    for node in stopped:
        node.start()
    for node in nodes:
        node.resume()
    for node in stopped:
        node.wait_until_ready()


def failures_in(said: str) -> list[str]:
    """Return the exceptions in a controller's log, except those of a disk that lost its power."""
    found: list[str] = []
    is_inside = False
    for line in said.splitlines():
        if line.startswith("Traceback"):
            is_inside = True
        elif line.startswith(FROM_THE_ONE_ABOVE):
            found.pop()
        elif is_inside and line and not line.startswith(" "):
            is_inside = False
            found.append(line)
    return [line for line in found if not line.startswith(DISK_FAILURE)]

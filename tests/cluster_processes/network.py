"""A network for each node: Linux network namespaces that one bridge joins, and cuts between them by direction.

    namespace kwire-PID-N-hub          bridge
    namespace kwire-PID-N-1, -2, ...   eth0 10.98.0.1, 10.98.0.2, ..., each the other end of a port of the bridge

Nothing of it is seen outside: addresses may be the same in every run, and a client reaches a node from within the
node's own namespace, so that no cut stands between the two. The namespaces' names tell whose they are: what a test
that was killed has left is removed by the next one. Needs root, `ip`, `iptables`, `ss` and
`nsenter`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "kwire"
NAMESPACES = Path("/run/netns")
THREAD = Path("/proc/thread-self/ns/net")
"""The network namespace of the thread that asks."""
CLONE_NEWNET = 0x40000000
PROGRAMS = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}
_numbers = itertools.count(1)


class Network:
    """The namespaces of some nodes, and which of them hear which."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        self._name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._hub = f"{self._name}-hub"
        self.cuts: set[tuple[int, int]] = set()
        """(source, target) whose packets are dropped where they arrive."""
        self._port_cuts: set[tuple[int, int, int]] = set()
        """(source, target, port of the target)"""
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        run("ip", "netns", "add", self._hub)
        run("ip", "-n", self._hub, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self._hub, "link", "set", "bridge", "up")
        for node in self.nodes:
            namespace, port = self.namespace(node), f"port{node}"
            run("ip", "netns", "add", namespace)
            run("ip", "-n", self._hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            run("ip", "-n", self._hub, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", namespace, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
            run("ip", "-n", namespace, "link", "set", "eth0", "up")
            run("ip", "-n", namespace, "link", "set", "lo", "up")

    def namespace(self, node: int) -> str:
        return f"{self._name}-{node}"

    def address(self, node: int) -> str:
        return f"10.98.0.{node}"

    def command(self, node: int, *command: str) -> list[str]:
        """A command that runs in a node's namespace, in the process that is started.

        `ip netns exec` would give it mounts of its own, too, and a disk could not be taken away while others run.
        """
        return ["nsenter", f"--net={NAMESPACES / self.namespace(node)}", "--", *command]

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are the node's for as long as they live."""
        with THREAD.open("rb") as before, (NAMESPACES / self.namespace(node)).open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    # --- cuts

    def cut_one_way(self, source: int, target: int) -> None:
        """The target hears nothing of the source any more."""
        self._rule("-A", source, target)
        self.cuts.add((source, target))

    def cut_port(self, source: int, target: int, port: int) -> None:
        """The target hears nothing from the source on this port; elsewhere it does."""
        self._rule("-A", source, target, "--protocol", "tcp", "--dport", str(port))
        self._port_cuts.add((source, target, port))

    def cut(self, one: int, other: int) -> None:
        """Neither hears the other."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def isolate(self, *nodes: int) -> None:
        """These hear none but one another, and nobody else hears them."""
        for node in nodes:
            for other in self.nodes:
                if other not in nodes:
                    self.cut(node, other)

    def heal(self) -> None:
        for source, target in sorted(self.cuts):
            self._rule("-D", source, target)
        for source, target, port in sorted(self._port_cuts):
            self._rule("-D", source, target, "--protocol", "tcp", "--dport", str(port))
        self.cuts.clear()
        self._port_cuts.clear()

    def redirect(self, node: int, port: int, to_port: int) -> None:
        """What comes from others for a port of the node goes to another one of its ports, where a proxy may listen."""
        match = ("--protocol", "tcp", "--dport", str(port), "--jump", "REDIRECT", "--to-ports", str(to_port))
        run(*self.command(node, "iptables", "--wait", "-t", "nat", "-A", "PREROUTING", *match))

    def reset(self, node: int, times: int) -> None:
        """Kill every connection of a node, so often: both ends are told."""
        for _ in range(times):
            run(*self.command(node, "ss", "--kill", "dst", f"{self.address(0)}/24"))

    def are_joined(self, one: int, other: int) -> bool:
        """Whether both hear each other."""
        return not self.cuts & {(one, other), (other, one)}

    def _rule(self, verb: str, source: int, target: int, *match: str) -> None:
        rule = ("iptables", "--wait", verb, "INPUT", "--source", self.address(source), *match, "--jump", "DROP")
        run(*self.command(target, *rule))

    def close(self) -> None:
        """Devices and rules go with their namespaces."""
        for path in NAMESPACES.glob(f"{self._name}-*"):
            run("ip", "netns", "delete", path.name)


def remove_leftovers() -> None:
    """What tests whose process is gone could not remove: their namespaces, and what still runs in them."""
    for path in NAMESPACES.glob(f"{PREFIX}-*"):
        _, process, *_ = path.name.split("-")
        if not process.isdigit() or Path(f"/proc/{process}").exists():
            continue
        with suppress(subprocess.CalledProcessError, ProcessLookupError):  # another test may be removing it, too
            for left in run("ip", "netns", "pids", path.name).split():
                os.kill(int(left), signal.SIGKILL)
            run("ip", "netns", "delete", path.name)


def why_not() -> str | None:
    """Why there can be no such networks on this machine; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "iptables", "nsenter", "ss"):
        if shutil.which(program, path=PROGRAMS["PATH"]) is None:
            return f"there is no `{program}`"
    remove_leftovers()
    try:
        network = Network([1, 2])
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespace can be made here: {_said(error)}"
    try:
        network.cut(1, 2)
        with network.inside(1):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        return f"nothing can be cut here: {_said(error)}"
    finally:
        network.close()
    return None


def run(*command: str) -> str:
    """What a program of the system says. Raises CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True, env=PROGRAMS).stdout


def _said(error: Exception) -> str:
    return str(getattr(error, "stderr", None) or error).strip()


def _enter(descriptor: int) -> None:
    """setns(2): Python has it from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

"""Networks for nodes: Linux network namespaces that one bridge connects, with cuts between them by direction.

    namespace kwire-PID-N-hub          bridge
    namespace kwire-PID-N-1, -2, ...   eth0 10.98.0.1, 10.98.0.2, ..., each the other end of a port of the bridge

The networks are invisible from outside: addresses may be equal in every run. A client reaches a node from within the
node's own namespace, so that no cut separates the two. The namespaces' names contain the process id: if a test was
killed, the next one removes its namespaces. Needs root, `ip`, `iptables`, `ss` and `nsenter`.
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
"""Network namespace of the current thread."""
CLONE_NEWNET = 0x40000000
PROGRAMS = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}
_numbers = itertools.count(1)


class Network:
    """Namespaces of nodes, and the cuts between them."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        self._name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._hub = f"{self._name}-hub"
        self.cuts: set[tuple[int, int]] = set()
        """(source, target) whose packets are dropped at the target."""
        self._port_cuts: set[tuple[int, int, int]] = set()
        """(source, target, port of the target) whose packets are dropped."""
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
        """Return a command that runs in a node's namespace, within the process that is started.

        `ip netns exec` would also create separate mounts, and a disk could not be removed while other processes run.
        """
        return ["nsenter", f"--net={NAMESPACES / self.namespace(node)}", "--", *command]

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """Create sockets of this thread in the node's namespace, for their whole lifetime."""
        with THREAD.open("rb") as before, (NAMESPACES / self.namespace(node)).open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    # --- cuts

    def cut_one_way(self, source: int, target: int) -> None:
        """Drop all packets from the source at the target."""
        self._rule("-A", source, target)
        self.cuts.add((source, target))

    def cut_port(self, source: int, target: int, port: int) -> None:
        """Drop packets from the source at this port of the target."""
        self._rule("-A", source, target, "--protocol", "tcp", "--dport", str(port))
        self._port_cuts.add((source, target, port))

    def cut(self, one: int, other: int) -> None:
        """Drop all packets between two nodes."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def isolate(self, *nodes: int) -> None:
        """Isolate these nodes: they receive packets only from each other, and other nodes receive none from them."""
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
        """Redirect connections from other nodes for a port of the node to another of its ports, where a proxy may
        listen.
        """
        match = ("--protocol", "tcp", "--dport", str(port), "--jump", "REDIRECT", "--to-ports", str(to_port))
        run(*self.command(node, "iptables", "--wait", "-t", "nat", "-A", "PREROUTING", *match))

    def reset(self, node: int, times: int) -> None:
        """Reset all connections of a node this many times, at both ends."""
        for _ in range(times):
            run(*self.command(node, "ss", "--kill", "dst", f"{self.address(0)}/24"))

    def are_joined(self, one: int, other: int) -> bool:
        """Return True if packets pass in both directions."""
        return not self.cuts & {(one, other), (other, one)}

    def _rule(self, verb: str, source: int, target: int, *match: str) -> None:
        rule = ("iptables", "--wait", verb, "INPUT", "--source", self.address(source), *match, "--jump", "DROP")
        run(*self.command(target, *rule))

    def close(self) -> None:
        """Remove the namespaces, with their devices and rules."""
        for path in NAMESPACES.glob(f"{self._name}-*"):
            run("ip", "netns", "delete", path.name)


def remove_leftovers() -> None:
    """Remove the namespaces of ended tests, and kill the processes in them."""
    for path in NAMESPACES.glob(f"{PREFIX}-*"):
        _, process, *_ = path.name.split("-")
        if not process.isdigit() or Path(f"/proc/{process}").exists():
            continue
        with suppress(subprocess.CalledProcessError, ProcessLookupError):  # another test may remove it at the same time
            for left in run("ip", "netns", "pids", path.name).split():
                os.kill(int(left), signal.SIGKILL)
            run("ip", "netns", "delete", path.name)


def why_not() -> str | None:
    """Return why such networks are impossible on this machine; None if they are possible."""
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
    """Return the output of a system program. Raises CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True, env=PROGRAMS).stdout


def _said(error: Exception) -> str:
    return str(getattr(error, "stderr", None) or error).strip()


def _enter(descriptor: int) -> None:
    """Call setns(2), which Python provides from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

"""Processes of a cluster's nodes on this machine, from the start until the last one has exited.

Each process has its own session, so that Ctrl-C in a terminal reaches only this process, which then stops them in
order. Brokers are first, because they need a controller for their shutdown. Nodes with both roles leave the quorum when
all brokers are done. A node that hangs is killed after STOP_SECONDS_MAX, and the stop of the others continues.

Each node reads a pipe that this process holds, and stops when it is closed. So no node outlives this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from kwire.cli.cluster_plan import Node
from kwire.cli.merged_output import JointOutput
from kwire.cli.stopping import LEAVE_QUORUM_LINE, SHUT_DOWN_LINE
from kwire.own_processes import environment

STOP_SECONDS_MAX = 60.0
"""Time without progress of the stop after which the nodes that are due are killed."""
LINE_BYTES_MAX = 1 << 16
SERVES = "kwire: serving Kafka on "
CONTROLS = "kwire: controlling on "


class ClusterProcesses:
    """Processes of the nodes: starts them, shows their output, and ends when all have exited."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        command: Callable[[Node], Sequence[str]],
        again: Callable[[Node], str],
        exit_on_failure: bool = False,
    ) -> None:
        """`again` returns the command to restart a node that has exited."""
        self._nodes = nodes
        self._command = command
        self._again = again
        self._exit_on_failure = exit_on_failure
        self._output = JointOutput([node.name for node in nodes], lost=self.stop_unless_stopping)
        self._running: dict[Node, Process] = {}
        self._addresses: dict[Node, str] = {}
        """Addresses of the nodes that are ready."""
        self._let_go: set[Node] = set()
        """Brokers that have shut down and stay in the quorum for the other nodes."""
        self._has_told_ready = False
        self._is_stopping = False
        self._deadline: asyncio.TimerHandle | None = None
        self.has_failed = False
        """True if the cluster has failed: a node did not stop cleanly, no node was left, or exit_on_failure."""

    async def run(self) -> None:
        """Start all nodes; return when all have exited. If cancelled, kill them."""
        try:
            for node in self._nodes:
                self._running[node] = await _start(self._command(node))
            if self._is_stopping:
                self._terminate()
            async with asyncio.TaskGroup() as watchers:
                for node in self._nodes:
                    watchers.create_task(self._watch(node, self._running[node]))
        finally:
            self._kill(self._running)
            await asyncio.gather(*(process.wait() for process in self._running.values()))
            if self._deadline is not None:
                self._deadline.cancel()

    def stop(self) -> None:
        """Stop all nodes; kill them at the second call."""
        if self._is_stopping:
            self._kill(self._running)
            return
        self._is_stopping = True
        self._restart_stop_timeout()
        self._output.note("stopping all nodes (Ctrl-C again kills them)")
        self._terminate()

    def stop_unless_stopping(self) -> None:
        """Stop all nodes, without effect during a stop: for events that are no request to kill them."""
        if not self._is_stopping:
            self.stop()

    def _terminate(self) -> None:
        brokers = [node for node in self._running if node.client_port is not None]
        for node in brokers or list(self._running):
            _send(self._running[node], signal.SIGTERM)

    def _restart_stop_timeout(self) -> None:
        """Restart the timeout of the stop, after progress of a node."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(STOP_SECONDS_MAX, self._kill_late_nodes)

    def _kill_late_nodes(self) -> None:
        """Kill only the nodes whose step is due: the others continue after their exit."""
        late = self._awaited()
        self._output.trouble(f"{', '.join(node.name for node in late)} did not stop in time: killed")
        self._kill(late)
        self._restart_stop_timeout()

    def _awaited(self) -> list[Node]:
        """Return the nodes whose step of the stop is due: to shut down as a broker, or to exit."""
        brokers = [node for node in self._running if node.client_port is not None]
        return [node for node in brokers if node not in self._let_go] or brokers or list(self._running)

    def _kill(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            _send(self._running[node], signal.SIGKILL)

    async def _watch(self, node: Node, process: Process) -> None:
        async for line in _lines(process):
            self._output.line(node.name, self._notice(node, line).removeprefix("kwire: "))
            if line == SHUT_DOWN_LINE:
                self._release(node)
            self._tell_ready()
        status = await process.wait()
        del self._running[node]
        self._addresses.pop(node, None)
        self._notice_end(node, status)

    def _notice(self, node: Node, line: str) -> str:
        """Return the line, without the parts that are only useful in a node's own output."""
        said = SERVES if node.client_port is not None else CONTROLS
        if not line.startswith(said):
            return line
        address = line.removeprefix(said).partition(", ")[0]
        self._addresses[node] = address
        return said + address

    def _release(self, node: Node) -> None:
        """Handle a broker's shutdown: it may leave the quorum now, or, if all stop, together with the last broker."""
        self._let_go.add(node)
        if self._is_stopping:
            self._restart_stop_timeout()
            self._release_all()
        else:
            _pipe(self._running[node]).write(LEAVE_QUORUM_LINE)

    def _release_all(self) -> None:
        brokers = {node for node in self._running if node.client_port is not None}
        if brokers <= self._let_go:
            for node in brokers:
                _pipe(self._running[node]).close()

    def _tell_ready(self) -> None:
        """Show the addresses, once, when all running nodes are ready."""
        if self._has_told_ready or self._is_stopping or not self._running or self._running.keys() - self._addresses:
            return
        self._has_told_ready = True
        ready = [node for node in self._nodes if node in self._addresses]
        brokers = [node for node in ready if node.client_port is not None]
        what = "bootstrap servers" if brokers else "controllers"
        addresses = ",".join(self._addresses[node] for node in brokers or ready)
        self._output.note(f"{what}: {addresses} (Ctrl-C stops all nodes)")

    def _notice_end(self, node: Node, status: int) -> None:
        if self._is_stopping:
            self._notice_end_of_stop(node, status)
            return
        how = _how(status)
        if not self._running:
            self.has_failed = True
            self._output.trouble(f"{node.name} {how}; no node is left")
        elif self._exit_on_failure and status:
            self.has_failed = True
            self._output.trouble(f"{node.name} {how}")
            self.stop()
        else:
            self._output.trouble(f"{node.name} {how}; the others go on. To start it again: {self._again(node)}")
            self._tell_ready()

    def _notice_end_of_stop(self, node: Node, status: int) -> None:
        self._restart_stop_timeout()
        # A node that has not installed its signal handlers yet is ended by the signal.
        if status not in (0, -signal.SIGTERM):
            self.has_failed = True
            self._output.trouble(f"{node.name} {_how(status)}")
        if all(each.client_port is None for each in self._running):
            self._terminate()
        self._release_all()
        if not self._running and not self.has_failed:
            self._output.note("all nodes have stopped")


def _send(process: Process, what: signal.Signals) -> None:
    """Send a signal to a process, unless it has exited.

    The methods of Process are not used: they poll the process, and might take its exit status from the task that waits.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, what)


async def _start(command: Sequence[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True, env=environment()
    )


def _pipe(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


async def _lines(process: Process) -> AsyncIterator[str]:
    """Yield the lines of the process's output; a very long line in parts."""
    assert process.stdout is not None
    rest = b""
    while data := await process.stdout.read(LINE_BYTES_MAX):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
    if rest:
        yield rest.decode(errors="replace")


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}" if status else "ended"

"""The nodes of a cluster as processes of this machine, from their start until the last one has ended.

Each has a session of its own, so that a terminal's Ctrl-C reaches only this process, which then stops them in order:
brokers first, as they take leave of the controllers; those that are both leave the quorum when all have done so. One
that hangs is killed in the end, and the others then go on to stop. Each reads a pipe that this process holds, and stops
when it is closed: nothing that happens to this process leaves a node behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from kwire.cli.cluster_plan import Node
from kwire.cli.joint_output import JointOutput
from kwire.cli.stopping import GO_ALONE, LET_GO
from kwire.server.own_processes import environment

STOP_SECONDS_MAX = 60.0
"""When no node has come any further for so long, those that should have are killed."""
LINE_BYTES_MAX = 1 << 16
SERVES = "kwire: serving Kafka on "
CONTROLS = "kwire: controlling on "


class ClusterProcesses:
    """Starts the nodes, shows what they say, and ends when all of them have ended."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        command: Callable[[Node], Sequence[str]],
        again: Callable[[Node], str],
        exit_on_failure: bool = False,
    ) -> None:
        """`again` is how people would start a node that ended."""
        self._nodes = nodes
        self._command = command
        self._again = again
        self._exit_on_failure = exit_on_failure
        self._output = JointOutput([node.name for node in nodes], lost=self.stop_unless_stopping)
        self._running: dict[Node, Process] = {}
        self._addresses: dict[Node, str] = {}
        """Where the nodes that are ready serve."""
        self._let_go: set[Node] = set()
        """Brokers that are done, and still in the quorum for the others' sake."""
        self._has_told_ready = False
        self._is_stopping = False
        self._deadline: asyncio.TimerHandle | None = None
        self.has_failed = False
        """Whether a node's end is a failure of all: it did not stop cleanly, or none was left, or exit_on_failure."""

    async def run(self) -> None:
        """Start all; return when all have ended. Cancelled, it kills them."""
        try:
            for node in self._nodes:
                self._running[node] = await _start(self._command(node))
            if self._is_stopping:
                self._terminate()
            async with asyncio.TaskGroup() as followers:
                for node in self._nodes:
                    followers.create_task(self._follow(node, self._running[node]))
        finally:
            self._kill(self._running)
            await asyncio.gather(*(process.wait() for process in self._running.values()))
            if self._deadline is not None:
                self._deadline.cancel()

    def stop(self) -> None:
        """Tell all to stop; told a second time, kill them."""
        if self._is_stopping:
            self._kill(self._running)
            return
        self._is_stopping = True
        self._be_patient()
        self._output.note("stopping all nodes (Ctrl-C again kills them)")
        self._terminate()

    def stop_unless_stopping(self) -> None:
        """For what may come beside a first stop, and is no wish for a second."""
        if not self._is_stopping:
            self.stop()

    def _terminate(self) -> None:
        brokers = [node for node in self._running if node.client_port is not None]
        for node in brokers or list(self._running):
            _send(self._running[node], signal.SIGTERM)

    def _be_patient(self) -> None:
        """From now on, as a node has just come further."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(STOP_SECONDS_MAX, self._lose_patience)

    def _lose_patience(self) -> None:
        """Kill only those whose turn it was: their end lets those that wait for them go on."""
        late = self._awaited()
        self._output.trouble(f"{', '.join(node.name for node in late)} did not stop in time: killed")
        self._kill(late)
        self._be_patient()

    def _awaited(self) -> list[Node]:
        """Who is to do the next step of the stop: end its work as a broker, or end."""
        brokers = [node for node in self._running if node.client_port is not None]
        return [node for node in brokers if node not in self._let_go] or brokers or list(self._running)

    def _kill(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            _send(self._running[node], signal.SIGKILL)

    async def _follow(self, node: Node, process: Process) -> None:
        async for line in _lines(process):
            self._output.line(node.name, self._notice(node, line).removeprefix("kwire: "))
            if line == LET_GO:
                self._release(node)
            self._tell_ready()
        status = await process.wait()
        del self._running[node]
        self._addresses.pop(node, None)
        self._notice_end(node, status)

    def _notice(self, node: Node, line: str) -> str:
        """The line, without what a node says to people who have only that one."""
        said = SERVES if node.client_port is not None else CONTROLS
        if not line.startswith(said):
            return line
        address = line.removeprefix(said).partition(", ")[0]
        self._addresses[node] = address
        return said + address

    def _release(self, node: Node) -> None:
        """A broker is done: it may leave the quorum now, or, where all stop, together with the last one."""
        self._let_go.add(node)
        if self._is_stopping:
            self._be_patient()
            self._release_all()
        else:
            _pipe(self._running[node]).write(GO_ALONE)

    def _release_all(self) -> None:
        brokers = {node for node in self._running if node.client_port is not None}
        if brokers <= self._let_go:
            for node in brokers:
                _pipe(self._running[node]).close()

    def _tell_ready(self) -> None:
        """Once, when all nodes that run are ready."""
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
        self._be_patient()
        # One that had not begun to listen to signals is ended by them.
        if status not in (0, -signal.SIGTERM):
            self.has_failed = True
            self._output.trouble(f"{node.name} {_how(status)}")
        if all(each.client_port is None for each in self._running):
            self._terminate()
        self._release_all()
        if not self._running and not self.has_failed:
            self._output.note("all nodes have stopped")


def _send(process: Process, what: signal.Signals) -> None:
    """A signal, unless it has ended.

    Not by the process's own methods: they look whether it has, and so may take its exit status away from the one who
    waits for that.
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
    """What the process says, by lines; a very long one in pieces."""
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

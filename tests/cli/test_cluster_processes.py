"""Processes of a cluster: display, stop and unexpected exits, with small programs in place of nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from kwire.cli.cluster_plan import Node, Shape
from kwire.cli.cluster_processes import ClusterProcesses
from tests.support.waiting import until

NODE = """
import signal, sys
ready, end, words = sys.argv[1], sys.argv[2], sys.argv[3:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print(*words, *([] if end.isdigit() else [ready]), sep="\\n", flush=True)
if end.isdigit():
    sys.exit(int(end))
signal.sigwait([signal.SIGUSR1 if end == "deaf" else signal.SIGTERM])
if end == "combined":
    print("kwire: no longer serving", flush=True)
    print("alone" if sys.stdin.readline() else "together", flush=True)
print("kwire: stopped", flush=True)
"""


class Output:
    """Replacement of click.echo: stores the lines, and reacts once to each line with given words."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.reactions: dict[str, Callable[[], object]] = {}

    def __call__(self, message: str, *, err: bool, color: bool | None) -> None:
        line = click.unstyle(message)
        self.lines.append(line)
        for words in [words for words in self.reactions if words in line]:
            self.reactions.pop(words)()

    def index(self, words: str) -> int:
        (found,) = [index for index, line in enumerate(self.lines) if words in line]
        return found


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Output:
    echo = Output()
    monkeypatch.setattr("kwire.cli.merged_output.click.echo", echo)
    return echo


def cluster(
    brokers: int, controllers: int, ends: Mapping[str, list[str]] | None = None, **more: Any
) -> ClusterProcesses:
    """Start a cluster; `ends` has the arguments, by name, of nodes that do not just serve and stop."""
    shape = Shape(brokers=brokers, controllers=controllers)
    ends = ends or {}

    def command(node: Node) -> list[str]:
        what = "controlling" if node.client_port is None else "serving Kafka"
        ready = f"kwire: {what} on 127.0.0.1:{node.client_port or node.controller_port}, node 1, data in x"
        return [sys.executable, "-c", NODE, ready, *ends.get(node.name, ["stop"])]

    nodes = shape.nodes(range(1, shape.port_count + 1))
    return ClusterProcesses(nodes, command=command, again=lambda node: f"start {node.name}", **more)


def test_the_start_and_stop_of_all_brokers_are_printed(reported: Output) -> None:
    processes = cluster(3, 0, {"broker-2": ["stop", "first words"]})
    reported.reactions["bootstrap servers"] = processes.stop
    asyncio.run(processes.run())
    assert not processes.has_failed
    assert reported.index("broker-2 | first words") < reported.index("broker-2 | serving Kafka on 127.0.0.1:2")
    ready = reported.index("kwire: bootstrap servers: 127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 (Ctrl-C stops all nodes)")
    assert ready == 4
    assert sorted(reported.lines[ready + 2 : -1]) == [f"broker-{number} | stopped" for number in (1, 2, 3)]
    assert reported.lines[-1] == "kwire: all nodes have stopped"


def test_brokers_stop_before_controllers(reported: Output) -> None:
    processes = cluster(2, 1)
    reported.reactions["bootstrap servers"] = processes.stop
    asyncio.run(processes.run())
    assert reported.index("controller-3 | stopped") > max(
        reported.index(f"broker-{number}     | stopped") for number in (1, 2)
    )
    assert not processes.has_failed


def test_combined_nodes_leave_the_quorum_after_all_brokers_stopped(reported: Output) -> None:
    processes = cluster(3, 0, {f"broker-{number}": ["combined"] for number in (1, 2, 3)})
    reported.reactions["bootstrap servers"] = processes.stop
    asyncio.run(processes.run())
    told_by = sorted(line for line in reported.lines if "together" in line)
    assert told_by == [f"broker-{number} | together" for number in (1, 2, 3)]
    last = max(index for index, line in enumerate(reported.lines) if "no longer serving" in line)
    assert last < min(index for index, line in enumerate(reported.lines) if "together" in line)
    assert not processes.has_failed


def test_a_broker_that_has_ended_is_not_waited_for(reported: Output) -> None:
    processes = cluster(3, 0, {"broker-1": ["combined"], "broker-2": ["stop"], "broker-3": ["0"]})
    reported.reactions["bootstrap servers"] = processes.stop
    asyncio.run(processes.run())
    assert reported.index("broker-1 | no longer serving") < reported.index("broker-1 | together")
    assert reported.lines[-1] == "kwire: all nodes have stopped"


def test_a_combined_node_stopped_by_a_signal_leaves_the_quorum_alone(reported: Output) -> None:
    processes = cluster(2, 0, {"broker-1": ["combined"]})
    reported.reactions["bootstrap servers"] = lambda: os.kill(
        processes._running[processes._nodes[0]].pid, signal.SIGTERM
    )
    reported.reactions["broker-1 ended; the others go on"] = processes.stop
    asyncio.run(processes.run())
    assert reported.index("broker-1 | no longer serving") < reported.index("broker-1 | alone")
    assert reported.lines[-1] == "kwire: all nodes have stopped"


def test_a_node_exit_is_printed_and_the_others_continue(reported: Output) -> None:
    processes = cluster(3, 0, {"broker-2": ["3", "kwire: stopped, because of a disk"]})
    reported.reactions["bootstrap servers"] = processes.stop
    asyncio.run(processes.run())
    assert "broker-2 | stopped, because of a disk" in reported.lines
    reported.index("broker-2 ended with exit status 3; the others go on. To start it again: start broker-2")
    reported.index("bootstrap servers: 127.0.0.1:1,127.0.0.1:3")
    assert not processes.has_failed


def test_a_killed_node_is_printed(reported: Output) -> None:
    processes = cluster(2, 0)

    def kill() -> None:
        processes._running[processes._nodes[1]].kill()

    reported.reactions["bootstrap servers"] = kill
    reported.reactions["broker-2 was ended by SIGKILL; the others go on"] = processes.stop
    asyncio.run(processes.run())
    assert reported.lines[-1] == "kwire: all nodes have stopped"


def test_exit_on_failure_stops_the_others(reported: Output) -> None:
    processes = cluster(2, 1, {"broker-1": ["3"]}, exit_on_failure=True)
    asyncio.run(processes.run())
    assert processes.has_failed
    reported.index("kwire: broker-1 ended with exit status 3")
    reported.index("stopping all nodes")


def test_the_command_ends_when_no_node_is_left(reported: Output) -> None:
    processes = cluster(1, 0, {"broker-1": ["0"]})
    asyncio.run(processes.run())
    assert processes.has_failed
    assert reported.lines[-1] == "kwire: broker-1 ended; no node is left"


def test_a_second_stop_kills(reported: Output) -> None:
    processes = cluster(1, 1, {"broker-1": ["deaf"]})
    reported.reactions["bootstrap servers"] = processes.stop
    reported.reactions["stopping all nodes"] = processes.stop
    asyncio.run(processes.run())
    assert processes.has_failed
    assert sorted(reported.lines[-2:]) == [
        f"kwire: {name} was ended by SIGKILL" for name in ("broker-1", "controller-2")
    ]


def test_a_node_that_does_not_stop_is_killed_in_the_end(reported: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.cluster_processes.STOP_SECONDS_MAX", 0.01)
    processes = cluster(1, 0, {"broker-1": ["deaf"]})
    reported.reactions["bootstrap servers"] = processes.stop
    asyncio.run(processes.run())
    assert "kwire: broker-1 did not stop in time: killed" in reported.lines
    assert processes.has_failed


def test_a_hanging_broker_alone_is_killed_and_the_others_leave_the_quorum(reported: Output) -> None:
    processes = cluster(3, 0, {"broker-1": ["combined"], "broker-2": ["combined"], "broker-3": ["deaf"]})

    async def run() -> None:
        reported.reactions["bootstrap servers"] = processes.stop
        running = asyncio.ensure_future(processes.run())
        await until(lambda: len(processes._let_go) == 2)
        processes._kill_late_nodes()
        await running

    asyncio.run(run())
    killed = reported.index("kwire: broker-3 did not stop in time: killed")
    assert "kwire: broker-3 was ended by SIGKILL" in reported.lines[killed:]
    ends = sorted(reported.lines[killed + 1 :])
    assert [line for line in ends if "| t" in line] == ["broker-1 | together", "broker-2 | together"]
    assert [line for line in ends if "| s" in line] == ["broker-1 | stopped", "broker-2 | stopped"]
    assert processes.has_failed


def test_a_hanging_broker_does_not_keep_controllers_from_a_clean_stop(reported: Output) -> None:
    processes = cluster(2, 1, {"broker-1": ["deaf"]})

    async def run() -> None:
        reported.reactions["bootstrap servers"] = processes.stop
        running = asyncio.ensure_future(processes.run())
        await until(lambda: processes._is_stopping and len(processes._running) == 2)
        processes._kill_late_nodes()
        await running

    asyncio.run(run())
    killed = reported.index("kwire: broker-1 did not stop in time: killed")
    assert reported.index("controller-3 | stopped") > killed
    assert [line for line in reported.lines if "SIGKILL" in line] == ["kwire: broker-1 was ended by SIGKILL"]
    assert processes.has_failed


def test_each_that_hangs_is_killed_in_its_turn(reported: Output) -> None:
    processes = cluster(1, 1, {"broker-1": ["deaf"], "controller-2": ["deaf"]})

    async def run() -> None:
        reported.reactions["bootstrap servers"] = processes.stop
        running = asyncio.ensure_future(processes.run())
        await until(lambda: processes._is_stopping)
        processes._kill_late_nodes()
        await until(lambda: len(processes._running) == 1)
        processes._kill_late_nodes()
        await running

    asyncio.run(run())
    ended = reported.index("broker-1 was ended by SIGKILL")
    assert reported.index("broker-1 did not stop in time: killed") < ended
    assert reported.index("controller-2 did not stop in time: killed") > ended


def test_an_output_that_nobody_reads_stops_the_cluster_cleanly(
    reported: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "gone").open("w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        reported.reactions["bootstrap servers"] = _break
        processes = cluster(2, 0)
        asyncio.run(processes.run())
    assert not processes.has_failed
    assert "bootstrap servers" in reported.lines[-1]


def _break() -> None:
    raise BrokenPipeError


def test_long_lines_are_cut_and_odd_bytes_shown(reported: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.cluster_processes.LINE_BYTES_MAX", 100)
    processes = cluster(1, 0, {"broker-1": ["0", "x" * 901, "caf\udce9"]})
    asyncio.run(processes.run())
    long = [line.removeprefix("broker-1 | ") for line in reported.lines if "xx" in line]
    assert "".join(long) == "x" * 901
    assert max(map(len, long)) <= 200
    assert "broker-1 | caf\N{REPLACEMENT CHARACTER}" in reported.lines


def test_a_cancelled_run_leaves_no_process(reported: Output) -> None:
    processes = cluster(2, 0, {"broker-1": ["deaf"], "broker-2": ["deaf"]})

    async def run() -> None:
        running = asyncio.ensure_future(processes.run())
        reported.reactions["bootstrap servers"] = running.cancel
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [process.returncode for process in processes._running.values()] == [-9, -9]

    asyncio.run(run())

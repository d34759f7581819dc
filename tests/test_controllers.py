"""Controllers in separate processes: a quorum that `kwire format` creates, with kill -9 and restarts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.ports import free_ports
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.support.processes import SECONDS, ServerProcess, command
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORIES = {node: f"{node}Db5QLSqSZieL3rJBUUegA" for node in (1, 2, 3)}
NEW_LEADER_SECONDS = 5.0
QUESTION = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
    ]
)


class Controllers:
    """Three controller processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(zip(DIRECTORIES, free_ports(3), strict=True))
        self.running: dict[int, ServerProcess] = {}
        voters = ",".join(f"{node}@127.0.0.1:{port}:{DIRECTORIES[node]}" for node, port in self.ports.items())
        for node, port in self.ports.items():
            self.properties(node).write_text(
                f"process.roles=controller\nnode.id={node}\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
                f"controller.listener.names=CONTROLLER\nlog.dirs={directory / str(node)}\n"
                f"controller.quorum.bootstrap.servers={','.join(f'127.0.0.1:{each}' for each in self.ports.values())}\n"
            )
            arguments = ["format", "-c", str(self.properties(node)), "-t", CLUSTER_ID, "-I", voters]
            subprocess.run(
                [sys.executable, "-m", "kwire", *arguments], check=True, capture_output=True, timeout=SECONDS
            )

    def properties(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def start(self, *nodes: int) -> None:
        for node in nodes:
            process = subprocess.Popen(
                command(str(self.properties(node))), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self.running[node] = ServerProcess(process)

    def end(self, node: int, number: int) -> int:
        process = self.running.pop(node)
        status = process.signal_and_wait(number)
        assert process.process.stdout is not None
        process.process.stdout.close()
        return status

    def describe(self) -> dict[int, Any]:
        """Return the quorum description of each running controller."""
        found = {}
        for node in self.running:
            with RawClient(f"127.0.0.1:{self.ports[node]}") as client:
                found[node] = client.ask(QUESTION, 2).topics[0].partitions[0]
        return found

    def leader(self) -> int | None:
        """Return the controller that describes itself as leader, with a high watermark."""
        leaders = [
            node
            for node, partition in self.describe().items()
            if partition.error_code == ErrorCode.NONE and partition.high_watermark > 0
        ]
        assert len(leaders) <= 1, "two leaders at once"
        return leaders[0] if leaders else None


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    try:
        yield made
    finally:
        for node in list(made.running):
            made.end(node, signal.SIGKILL)


def test_three_controllers_continue_after_the_leader_is_killed(controllers: Controllers) -> None:
    controllers.start(1, 2, 3)
    eventually(controllers.leader, "a leader")
    first = controllers.leader()
    assert first is not None
    before = controllers.describe()[first]
    assert {voter.replica_id for voter in before.current_voters} == {1, 2, 3}
    controllers.end(first, signal.SIGKILL)
    killed = time.monotonic()
    eventually(controllers.leader, "another leader")
    assert time.monotonic() - killed < NEW_LEADER_SECONDS
    second = controllers.leader()
    assert second not in (None, first)
    after = controllers.describe()[second or 0]
    assert after.leader_epoch > before.leader_epoch
    assert after.high_watermark > before.high_watermark
    controllers.start(first)

    def has_caught_up() -> bool:
        partition = controllers.describe()[second or 0]
        ends = {voter.replica_id: voter.log_end_offset for voter in partition.current_voters}
        return ends.get(first) == ends.get(second or 0)

    eventually(has_caught_up, "the one that was killed has caught up")


def test_a_clean_stop_hands_the_quorum_over(controllers: Controllers) -> None:
    controllers.start(1, 2, 3)
    eventually(controllers.leader, "a leader")
    first = controllers.leader()
    assert first is not None
    assert controllers.end(first, signal.SIGTERM) == 0
    eventually(controllers.leader, "another leader")
    for node in list(controllers.running):
        assert controllers.end(node, signal.SIGTERM) == 0

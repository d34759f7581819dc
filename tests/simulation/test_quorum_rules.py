"""Rules of the quorum, applied to a node that returns with less data than it had on its disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from kwire.log.disk import DiskFailure
from kwire.protocol.messages.metadata_records import TopicRecord
from kwire.simulation import Simulation
from kwire.simulation.controllers import DIRECTORY, SimulatedController
from kwire.simulation.files import DirectoryNode, FileNode
from tests.simulation.quorum_rules import Rules
from tests.simulation.test_broker_control import Cluster

LOG = "00000000000000000000.log"
METADATA = f"{DIRECTORY}/__cluster_metadata-0"


def run_with_rules(scenario: Any) -> None:
    """Run three controllers, with the rules checked after each event."""
    with Simulation(5) as simulation:
        cluster = Cluster(simulation)
        simulation.check_after_each_event(Rules(simulation, cluster.nodes).at_any_moment)

        async def main() -> None:
            await cluster.start()
            await scenario(cluster)

        simulation.run(main(), seconds=600)


async def leader_other_than(cluster: Cluster, node: SimulatedController | None) -> SimulatedController:
    while (leader := cluster.leader()) is None or leader is node:
        await asyncio.sleep(0.1)
    return leader


def begin_write(node: SimulatedController, count: int) -> None:
    """Append that many records in the node's own process."""

    async def append() -> None:
        with suppress(DiskFailure):
            records = [TopicRecord(name=f"t-{number}", topic_id=UUID(int=number)) for number in range(1, count + 1)]
            node.server.metadata_log.append(records)

    process = node.host.process
    assert process is not None
    process.run(append())


async def write(node: SimulatedController, count: int) -> None:
    """Append that many records and wait until they are on the node's disk."""
    log = node.server.metadata_log
    end = log.next_offset + count
    begin_write(node, count)
    while log.node.log.flushed_end_offset < end:
        await asyncio.sleep(0.1)


async def failed(node: SimulatedController) -> BaseException:
    """Wait until the metadata log has failed and return the failure."""
    failure = node.server.metadata_log.failed
    while not failure.done():
        await asyncio.sleep(0.1)
    return failure.result()


async def fail_in_truncation(cluster: Cluster) -> tuple[SimulatedController, int]:
    """Return a deposed leader that failed during the truncation of its uncommitted records, and its log end before."""
    deposed = await leader_other_than(cluster, None)
    cluster.simulation.network.isolate(deposed.name, reason="test")
    await write(deposed, 50)
    end = deposed.server.metadata_log.node.log.flushed_end_offset
    await leader_other_than(cluster, deposed)
    fault = deposed.host.device.fail("fsync", path=LOG)
    cluster.simulation.network.heal(reason="test")
    assert isinstance(await failed(deposed), DiskFailure)
    deposed.host.device.heal(fault)
    return deposed, end


def lose(node: SimulatedController) -> None:
    """Remove the log and its recovery point without the node's knowledge."""
    directory = node.host.device.root.find(METADATA)
    assert isinstance(directory, DirectoryNode)
    del directory.entries["recovery-point-offset-checkpoint"]
    file = directory.entries[LOG]
    assert isinstance(file, FileNode)
    file.content.clear()


def test_a_log_may_be_truncated_after_a_failed_truncation() -> None:
    async def scenario(cluster: Cluster) -> None:
        deposed, end = await fail_in_truncation(cluster)
        deposed.kill()
        await deposed.start()
        assert deposed.server.metadata_log.node.log.end_offset < end, "it was cut before the failure"

    run_with_rules(scenario)


def test_a_failed_truncation_keeps_the_records_below_its_offset() -> None:
    async def scenario(cluster: Cluster) -> None:
        deposed, _ = await fail_in_truncation(cluster)
        deposed.kill()
        lose(deposed)
        await deposed.start()

    with pytest.raises(AssertionError, match="on its disk and comes back with 0"):
        run_with_rules(scenario)


def test_a_log_that_failed_in_an_append_keeps_its_durable_records() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await leader_other_than(cluster, None)
        await write(leader, 1)
        fault = leader.host.device.fail("append", path=LOG)
        begin_write(leader, 2)
        assert isinstance(await failed(leader), DiskFailure)
        leader.host.device.heal(fault)
        leader.kill()
        lose(leader)
        await leader.start()

    with pytest.raises(AssertionError, match="on its disk and comes back with 0"):
        run_with_rules(scenario)

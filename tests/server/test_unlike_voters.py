"""Controllers with different controller.quorum.voters: no node compares them, as in Apache Kafka, and all survive.

Each node uses its own set, votes for any candidate with a log as long as its own, and follows any leader. If all
majorities of all sets overlap, there is one leader; otherwise there may be two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.schema import schema_of
from kwire.server.assembly.controller_server import ControllerServer, start_controller
from kwire.server.node.node import Node
from kwire.server.node.runtime import Seams
from kwire.server.settings.config import make_config
from kwire.simulation import Simulation, WireClient
from kwire.simulation.controllers import PORT, SimulatedController, format_once, voter_set
from kwire.simulation.hosts import Process
from tests.server.cluster_bad_input import codes_of
from tests.server.controller_requests import BROKER, World, begin_epoch, registration

SECONDS = 30.0


class ConfiguredController(SimulatedController):
    """Controller with voters from its settings; its log has no voter records."""

    async def start_server(self, process: Process, opened: Callable[[Node], None]) -> ControllerServer:
        format_once(process.disk, self.key, None)
        seams = Seams(
            clock=process.clock,
            random_source=process.random_source,
            disk=process.disk,
            workers=process.workers,
            opened=opened,
        )
        return await start_controller(make_config(self._settings), seams)


class Nodes:
    """Controllers by id, each with its own set of voters."""

    def __init__(self, simulation: Simulation, sets: Mapping[int, Sequence[int]]) -> None:
        self.simulation = simulation
        self.by_id = {node_id: self._make(node_id, sets[node_id]) for node_id in sets}

    def _make(self, node_id: int, voters: Sequence[int]) -> ConfiguredController:
        name = f"controller-{node_id}"
        config = {
            "controller.quorum.voters": ",".join(f"{voter}@controller-{voter}:{PORT}" for voter in voters),
            "controller.quorum.bootstrap.servers": "",
        }
        alone = voter_set({node_id: name})
        return ConfiguredController(self.simulation.host(name), node_id=node_id, voters=alone, config=config)

    def start(self, *ids: int) -> None:
        async def begin() -> None:
            for node_id in ids:
                self.by_id[node_id].begin()

        self.simulation.run(begin())

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = self.simulation.now + SECONDS
        while not condition():
            assert self.simulation.now < end, what
            self.simulation.advance(0.1)

    def leaders(self) -> list[int]:
        """Return the leaders that have committed the first record of their epoch."""
        return [node_id for node_id, node in self.by_id.items() if node.metadata_log and node.metadata_log.is_active]

    def follow(self, leader: int) -> bool:
        """Return True if all running nodes follow this leader and have the same high watermark."""
        running = [node for node in self.by_id.values() if node.is_running]
        if not all(node.is_serving for node in running):
            return False
        quorums = [node.server.metadata_log.node.quorum for node in running]
        return {(each.leader_id, each.high_watermark) for each in quorums} == {(leader, quorums[0].high_watermark)}

    def ask(self, node_id: int, request: Any) -> Any:
        async def ask() -> Any:
            client = await WireClient.connect(f"controller-{node_id}:{PORT}")
            try:
                return await client.ask(request, schema_of(type(request)).versions.high)
            finally:
                client.close()

        return self.simulation.run(ask(), seconds=60)

    def check_all_live(self) -> None:
        self.until(lambda: all(node.is_serving for node in self.by_id.values()), "all serve")
        assert [node.failure for node in self.by_id.values()] == [None] * len(self.by_id)


@pytest.fixture(params=range(1, 6))
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with Simulation(seed=request.param) as made:
        yield made


def test_nodes_with_overlapping_voter_sets_elect_one_leader(simulation: Simulation) -> None:
    sets = {1: (1, 2), 2: (2, 3), 3: (1, 3)}
    nodes = Nodes(simulation, sets)
    nodes.start(*sets)
    nodes.until(lambda: bool(nodes.leaders()), "a leader")
    (first,) = nodes.leaders()
    nodes.until(lambda: nodes.follow(first), "all follow it, whether their sets have it or not")
    for node_id, node in nodes.by_id.items():
        assert node.server.metadata_log.node.quorum.history.voters.ids == set(sets[node_id])
    assert list(codes_of(nodes.ask(first, registration()))) == []
    nodes.by_id[first].power_off()
    successor = first % 3 + 1
    nodes.until(lambda: nodes.leaders() == [successor], "the one whose set has a majority left leads")
    assert BROKER in nodes.by_id[successor].server.metadata_log.image.brokers, "what was committed is there"
    nodes.start(first)
    nodes.until(lambda: nodes.follow(successor), "all follow it")
    nodes.check_all_live()


def test_a_second_leader_of_an_epoch_is_rejected_and_both_live_on(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    """Node 1 is a majority of its own set; Apache Kafka's controllers exit when two such leaders meet."""
    nodes = Nodes(simulation, {1: (1,), 2: (1, 2, 3), 3: (1, 2, 3)})
    nodes.start(2)  # one after the other: each later node is elected at once, in the first epoch
    nodes.until(lambda: nodes.by_id[2].metadata_log is not None, "node 2 asks for votes")
    nodes.start(3)
    nodes.until(lambda: bool(nodes.leaders()), "a leader of the others")
    (leader,) = nodes.leaders()
    epoch = nodes.by_id[leader].server.metadata_log.epoch
    assert epoch == 1
    with caplog.at_level(logging.ERROR, "kwire.cluster.quorum"):
        nodes.start(1)
        nodes.until(lambda: len(nodes.leaders()) == 2, "node 1 leads itself")
        reported = f"node 1: received leader {leader} in epoch {epoch}, but it has leader 1 in epoch {epoch}"
        nodes.until(lambda: reported in caplog.messages, "node 1 logs the leader that it received")
    world = World(leader_id=leader, other_id=1, epoch=epoch, broker_epoch=-1)
    assert list(codes_of(nodes.ask(1, begin_epoch(world)))) == [ErrorCode.INVALID_REQUEST]
    assert list(codes_of(nodes.ask(leader, registration()))) == []
    nodes.until(lambda: BROKER in nodes.by_id[5 - leader].server.metadata_log.image.brokers, "the others go on")
    assert sorted(nodes.leaders()) == [1, leader]
    nodes.check_all_live()

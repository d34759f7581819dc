"""Invalid requests to controllers: Kafka's error code, or one clear log message; the controllers survive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kwire.protocol.messages.fetch_snapshot import SnapshotId
from kwire.protocol.schema import schema_of
from kwire.simulation import Simulation, WireClient
from kwire.simulation.clusters import FIRST_CONTROLLER_ID
from kwire.simulation.controllers import PORT
from kwire.simulation.nodes import AnyNode
from tests.server.cluster_bad_input import CASES, Case, codes_of
from tests.server.controller_requests import World, heartbeat, registration

SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 1000}


class Controllers:
    """Two controllers and the session of a registered broker."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster = simulation.cluster(brokers=0, controllers=2, config=SNAPSHOTS)
        simulation.run(self.cluster.start())
        while (leader := self.cluster.active_controller) is None:
            simulation.advance(0.1)
        assert leader.metadata_log is not None
        self.leader = leader
        self.other = next(node for node in self.cluster.nodes if node is not leader)
        registered = self.ask(leader, registration())
        while (snapshot := leader.metadata_log.node.log.latest_snapshot_id) is None or not snapshot.offset:
            simulation.advance(0.1)
        self.world = World(
            leader_id=FIRST_CONTROLLER_ID + self.cluster.nodes.index(leader),
            other_id=FIRST_CONTROLLER_ID + self.cluster.nodes.index(self.other),
            epoch=leader.metadata_log.epoch,
            broker_epoch=registered.broker_epoch,
            snapshot=SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        )

    def ask(self, node: AnyNode, request: Any, version: int = -1) -> Any:
        """Send a request over the wire and return the response. Raises OSError."""

        async def ask() -> Any:
            client = await WireClient.connect(f"{node.name}:{PORT}")
            try:
                return await client.ask(request, schema_of(type(request)).versions.high if version < 0 else version)
            finally:
                client.close()

        return self.simulation.run(ask(), seconds=60)


@pytest.fixture(scope="module")
def controllers() -> Iterator[Controllers]:
    with Simulation(seed=11) as simulation:
        yield Controllers(simulation)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_the_controller_answers_with_a_code_and_lives_on(controllers: Controllers, case: Case) -> None:
    world = controllers.world
    controllers.ask(controllers.leader, heartbeat(world))
    node = controllers.other if case.is_to_other else controllers.leader
    answer = controllers.ask(node, case.make(world), case.version)
    assert list(codes_of(answer)) == case.codes
    beat = controllers.ask(controllers.leader, heartbeat(world))
    assert list(codes_of(beat)) == []
    assert controllers.cluster.active_controller is controllers.leader
    assert all(each.failure is None for each in controllers.cluster.nodes)

"""Broker start while no record is written to the metadata log."""

from __future__ import annotations

import asyncio

from kwire.simulation import Simulation


def test_a_broker_catches_up_from_a_snapshot_without_later_records() -> None:
    """No record is committed after the snapshot, so no further record would show that the broker has caught up."""
    with Simulation(5) as simulation:
        often = {"metadata.log.max.snapshot.interval.ms": 1000}
        cluster = simulation.cluster(brokers=2, controllers=1, config=often, as_objects=True)

        async def acts() -> None:
            (controller,), (first, second) = cluster.controllers, cluster.brokers
            await asyncio.gather(controller.start(), first.start())
            metadata_log = controller.metadata_log
            assert metadata_log is not None
            while (snapshot_id := metadata_log.node.log.latest_snapshot_id) is None or (
                snapshot_id.offset != metadata_log.high_watermark
            ):
                await asyncio.sleep(1)
            end_offset = metadata_log.next_offset
            starting = asyncio.ensure_future(second.start())
            await asyncio.wait_for(starting, 10)
            assert metadata_log.next_offset > end_offset, "its registration is the first record since"

        simulation.run(acts(), seconds=120)

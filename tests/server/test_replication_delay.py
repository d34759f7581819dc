"""Replication delay: replicas get appended records at once, even if a follower's fetch is waiting without news."""

from __future__ import annotations

import asyncio

from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode
from tests.server.replicated_topic import Scene, play
from tests.support.requests import batch, create_request

AT_ONCE_SECONDS = 0.25
"""Time limit; a follower's fetch without news waits twice as long."""


class Appending:
    """Waiter that appends to one partition when another one commits, as coordinators do, within the notification."""

    def __init__(self, committing: Partition, other: Partition) -> None:
        self._committing = committing
        self._other = other
        committing.wait(self)

    def data_available(self, size: int) -> None:
        self.state_changed()

    def state_changed(self) -> None:
        self._committing.stop_waiting(self)
        self._other.append(batch(b"what follows"), -1)


async def led_beside(scene: Scene) -> Partition:
    """Return a partition of another topic with the same leader, so that the same fetches cover both."""
    await scene.ask(1, create_request("u", partitions=3, replicas=3), 7)
    partitions = scene.cluster.brokers[scene.leader_id - 1].server.services.partitions

    def found() -> Partition | None:
        there = [partitions.get("u", index) for index in range(3)]
        return next((each for each in there if each is not None and each.is_led), None)

    await scene.until(lambda: found() is not None)
    await asyncio.sleep(2)  # until all followers fetch it
    partition = found()
    assert partition is not None
    return partition


def test_an_append_during_the_update_of_a_follower_completes_its_waiting_fetch() -> None:
    async def acts(scene: Scene) -> None:
        other = await led_beside(scene)
        for first, second in [(scene.leader, other), (other, scene.leader)] * 2:
            Appending(first, second)
            began = scene.simulation.now
            first.append(batch(b"a"), -1)
            end = second.log.log_end_offset + 1
            await scene.until(lambda second=second, end=end: second.high_watermark == end)  # type: ignore[misc]
            assert scene.simulation.now - began < AT_ONCE_SECONDS

    play(acts)


def test_a_follower_fetches_again_at_once_after_its_flush() -> None:
    async def acts(scene: Scene) -> None:
        await led_beside(scene)
        for _ in range(4):
            began = scene.simulation.now
            assert (await scene.produce(b"a")).error_code == ErrorCode.NONE
            assert scene.simulation.now - began < AT_ONCE_SECONDS

    play(acts, flush_messages=1)

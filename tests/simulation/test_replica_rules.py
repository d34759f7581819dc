"""Rules of replicas: violations that they find after a manipulation of a broker's state."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.in_sync import Proposal
from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode
from kwire.simulation import SimulatedCluster, Simulation
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.promise import newest_image
from tests.simulation.replica_rules import ReplicaRules
from tests.support.requests import batch, create_request, produce_request

TOPIC = "orders"


class Stage:
    """Three brokers and a partition with a replica on each, which has one record."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster: SimulatedCluster = simulation.cluster(brokers=3, controllers=3)
        self.ledger = Ledger()
        self.rules = ReplicaRules(self.cluster, self.ledger)
        simulation.run(self._begin(), seconds=60)
        simulation.advance(5)
        self.rules.image_changed(self.image)
        self.rules.look()
        self.rules.of_whole_logs()

    async def _begin(self) -> None:
        await self.cluster.start()
        client = await self.simulation.connect(self.cluster.brokers[0])
        assert (await client.ask(create_request(TOPIC, 1, replicas=3), 7)).topics[0].error_code == ErrorCode.NONE
        client.close()
        while self.image.topics[TOPIC].partitions[0].leader < 0:
            await asyncio.sleep(0.1)
        await self.append()

    async def append(self) -> None:
        client = await self.simulation.connect(self.cluster.brokers[self.leading.leader_id - 1])
        answer = await client.ask(produce_request(TOPIC, batch(b"a")), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        client.close()

    @property
    def image(self) -> MetadataImage:
        return newest_image(self.cluster)

    def replica(self, broker_id: int) -> Partition:
        found = self.cluster.brokers[broker_id - 1].server.services.partitions.get(TOPIC, 0)
        assert found is not None
        return found

    @property
    def leading(self) -> Partition:
        return self.replica(self.image.topics[TOPIC].partitions[0].leader)

    @property
    def followers(self) -> list[Partition]:
        return [self.replica(broker_id) for broker_id in (1, 2, 3) if broker_id != self.leading.leader_id]

    @property
    def a_follower(self) -> int:
        return next(broker_id for broker_id in (1, 2, 3) if broker_id != self.leading.leader_id)

    def append_another(self) -> None:
        self.simulation.run(self.append(), seconds=60)
        self.simulation.advance(5)

    def restart(self, broker_id: int, *, cleanly: bool) -> MetadataImage:
        """Restart a broker and return the earlier state, as if its registration had changed no partition."""
        broker, before = self.cluster.brokers[broker_id - 1], self.image

        async def restart() -> None:
            if cleanly:
                await broker.stop()
            else:
                broker.kill()
            await broker.start()

        self.simulation.run(restart(), seconds=120)
        brokers = {**before.brokers, broker_id: self.image.brokers[broker_id]}
        return dataclasses.replace(before, offset=before.offset + 1, brokers=brokers)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Simulation(seed=3) as simulation:
        yield Stage(simulation)


def changed(image: MetadataImage, **fields: Any) -> MetadataImage:
    """Return the next state, whose partition has these fields and another epoch."""
    topic = image.topics[TOPIC]
    part = topic.partitions[0]
    part = dataclasses.replace(part, partition_epoch=part.partition_epoch + 1, **fields)
    topics = {**image.topics, TOPIC: dataclasses.replace(topic, partitions=(part,))}
    return dataclasses.replace(image, offset=image.offset + 1, topics=topics)


def test_a_leader_that_commits_without_an_in_sync_replica_breaks_r3(stage: Stage) -> None:
    leading = stage.leading
    leading.image = dataclasses.replace(leading.image, isr=(leading.leader_id,))
    with pytest.raises(AssertionError, match=r"^R3: .* do not count for it"):
        stage.rules.look()


def test_a_leader_that_proposed_an_isr_shrink_keeps_r3(stage: Stage) -> None:
    leading = stage.leading
    assert leading.followers is not None
    leading.followers.proposal = proposal(leading, leading.leader_id)
    stage.rules.look()


def proposal(leading: Partition, *isr: int) -> Proposal:
    part = leading.image
    return Proposal(
        isr=isr,
        broker_epochs=(-1,) * len(isr),
        leader_epoch=part.leader_epoch,
        partition_epoch=part.partition_epoch,
    )


def test_committing_a_record_that_an_in_sync_replica_lacks_breaks_r3(stage: Stage) -> None:
    stage.append_another()
    assert stage.leading.followers is not None
    stage.leading.followers.follower(stage.a_follower).log_end_offset = 1
    with pytest.raises(AssertionError, match=r"^R3: .* commits 2; broker \d has fetched up to 1"):
        stage.rules.look()


def test_other_records_below_the_leaders_high_watermark_break_r5(stage: Stage) -> None:
    stage.append_another()
    stage.rules.look()
    for replica in (stage.leading, *stage.followers):
        replica.high_watermark = 1  # as on followers without newer responses
    truth = stage.rules.truth((stage.leading.topic_id, 0))
    truth.batches[1] = (9, 9)
    with pytest.raises(AssertionError, match=r"^R5: .* at 1, where \(9, 9\) is committed"):
        stage.rules.of_whole_logs()
    del truth.batches[1]
    stage.rules.of_whole_logs()


def test_an_isr_change_that_the_leader_did_not_propose_breaks_r10(stage: Stage) -> None:
    leading = stage.leading
    left = tuple(broker_id for broker_id in leading.image.isr if broker_id != stage.a_follower)
    with pytest.raises(AssertionError, match=r"^R10: .* has proposed None"):
        stage.rules.image_changed(changed(stage.image, isr=left))


def test_an_isr_change_that_the_leader_proposed_keeps_r10(stage: Stage) -> None:
    leading = stage.leading
    left = tuple(broker_id for broker_id in leading.image.isr if broker_id != stage.a_follower)
    assert leading.followers is not None
    leading.followers.proposal = proposal(leading, *left)
    stage.rules.image_changed(changed(stage.image, isr=left))


@pytest.mark.parametrize("cleanly", [True, False])
def test_an_eligible_replica_after_an_unclean_restart_breaks_r12(stage: Stage, *, cleanly: bool) -> None:
    wrong = stage.restart(stage.a_follower, cleanly=cleanly)
    if cleanly:
        stage.rules.image_changed(wrong)
    else:
        with pytest.raises(AssertionError, match=r"^R12: .* had no clean end"):
            stage.rules.image_changed(wrong)


def test_a_high_watermark_that_goes_back_breaks_r7(stage: Stage) -> None:
    stage.append_another()
    stage.rules.look()
    stage.followers[0].high_watermark = 1
    with pytest.raises(AssertionError, match=r"^R7: .* went back from 2 to 1"):
        stage.rules.look()


@pytest.mark.parametrize(
    ("leader_start", "asked", "broken"),
    [(0, 1, ""), (1, 1, "begin before their leader"), (0, 0, "nobody asked to delete beyond 0")],
)
def test_log_start_offsets_may_differ_after_a_record_deletion(
    stage: Stage, leader_start: int, asked: int, broken: str
) -> None:
    """A leader that was deposed before its followers received the deletion has a higher log start than they have."""
    first, second = stage.followers
    first.log.offsets.start, second.log.offsets.start = 1, 0
    stage.leading.log.offsets.start = leader_start
    with pytest.raises(AssertionError, match=r"R6: .* begin and end differently"):
        stage.rules.of_replicas_at_rest(frozenset())
    stage.ledger.trimmed[stage.leading.topic_id, 0] = asked
    with pytest.raises(AssertionError, match=f"R6: .*{broken}") if broken else nullcontext():
        stage.rules.of_replicas_at_rest(frozenset())

"""Invariants of every partition under any broker failures and any requests (RELIABILITY 2.3)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.chunks import at_once
from kwire.cluster.controller.plans.broker_changes import (
    plan_controlled_shutdown,
    plan_fencing,
    plan_new_incarnation,
    plan_offline_directories,
    plan_unfencing,
    plan_unregistration,
)
from kwire.cluster.controller.plans.isr_changes import IsrChanges
from kwire.cluster.controller.plans.leader_elections import plan_preferred_leaders, plan_unclean_leaders
from kwire.cluster.controller.plans.reassignments import is_moving, plan_cancellation, plan_move
from kwire.cluster.controller.plans.replica_directories import DirectoryAssignments
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.metadata.image import NO_LEADER, UNCHANGED_LEADER, MetadataImage, PartitionImage, changed_partition
from kwire.cluster.metadata.image_records import records_of
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from tests.cluster.controller.support import (
    broker_record,
    directory,
    epoch,
    made_by,
    partition_record,
    topic_config,
    view_of,
)

BROKERS = (1, 2, 3, 4, 5)
REPLICAS = ([1, 2, 3], [3, 4], [5, 1, 2])


class World:
    """A cluster to which random events happen in sequence, with invariants checked after each."""

    def __init__(self, *, elr: bool, unclean: bool, min_insync: int) -> None:
        batch: list[Any] = [broker_record(broker, directories=2) for broker in BROKERS]
        for number, replicas in enumerate(REPLICAS):
            name, topic_id = f"t{number}", UUID(int=1000 + number)
            batch += [
                records.TopicRecord(name=name, topic_id=topic_id),
                partition_record(replicas, topic_id=topic_id),
                topic_config(name, "min.insync.replicas", str(min_insync)),
                topic_config(name, "unclean.leader.election.enable", str(unclean).lower()),
            ]
        self.view = view_of(batch, elr=elr)
        self.aims: dict[str, tuple[int, ...]] = {}
        """Targets of reassignments by topic."""

    def take(self, made: list[Any]) -> None:
        """Apply records, as the controller does, and check each."""
        for record in made:
            assert records.decode_metadata_record(records.encode_metadata_record(record)) == record
            if isinstance(record, records.PartitionChangeRecord):
                self.check_change(record)
            self.view = self.view.after([record])
        self.check()

    def check_change(self, record: records.PartitionChangeRecord) -> None:
        old = self.place(record.topic_id.int - 1000).partition
        new = changed_partition(old, record)
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch - old.leader_epoch == int(record.leader != UNCHANGED_LEADER)
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
        gone = set(old.replicas) - set(new.replicas)
        assert not gone or new.leader_epoch > old.leader_epoch, "who is no replica any more is fenced by the epoch"
        assert len(new.directories) == len(new.replicas)

    def check(self) -> None:
        for place in self.view.places():
            self.check_partition(place.topic.name, place.partition)
        anew = MetadataImage().apply(
            list(records_of(self.view.image)), offset=self.view.image.offset, epoch=self.view.image.epoch
        )
        assert anew == self.view.image

    def check_partition(self, name: str, partition: PartitionImage) -> None:
        isr, eligible = set(partition.isr), set(partition.eligible_leader_replicas)
        assert len(isr) == len(partition.isr)
        assert isr | eligible <= set(partition.replicas)
        assert not isr & eligible
        if partition.leader == NO_LEADER:
            assert isr or self.view.is_elr_enabled
        else:
            assert partition.leader in isr
            assert self.view.is_active(partition.leader) or partition.replicas == (partition.leader,)
            assert self.view.has_online_replica(partition, partition.leader)
        if not self.view.is_elr_enabled:
            assert not eligible
            assert not partition.last_known_elr
        else:
            assert partition.leader == NO_LEADER or not partition.last_known_elr
            assert all(self.view.is_active(broker) or partition.replicas == (broker,) for broker in isr)
        if not is_moving(partition) and name in self.aims:
            assert partition.replicas == self.aims.pop(name), "a move ends where it was to go"

    def place(self, number: int) -> Place:
        topic = self.view.image.topics[f"t{number % len(REPLICAS)}"]
        return Place(topic, 0, topic.partitions[0])

    # Possible events

    def fence(self, broker: int, _: int) -> None:
        if broker in self.view.image.brokers:
            self.take(made_by(self.view, plan_fencing, broker))
            assert all(place.partition.leader != broker for place in self.view.places())

    def unfence(self, broker: int, _: int) -> None:
        known = self.view.image.brokers.get(broker)
        if known is not None and known.fenced and not known.in_controlled_shutdown:
            self.take(made_by(self.view, plan_unfencing, broker))

    def stop(self, broker: int, _: int) -> None:
        known = self.view.image.brokers.get(broker)
        if known is not None and not known.fenced:
            self.take(made_by(self.view, plan_controlled_shutdown, broker))

    def start(self, broker: int, random_source: int) -> None:
        back = broker_record(broker, directories=2, fenced=True)
        was_clean = bool(random_source % 2)
        made = made_by(self.view, plan_new_incarnation, broker, directories=back.log_dirs, was_clean=was_clean)
        self.take([*made, back])

    def forget(self, broker: int, _: int) -> None:
        if broker in self.view.image.brokers:
            self.take(made_by(self.view, plan_unregistration, broker))

    def lose_directory(self, broker: int, random_source: int) -> None:
        known = self.view.image.brokers.get(broker)
        if known is not None and len(known.directories) == 2:
            self.take(made_by(self.view, plan_offline_directories, broker, [directory(broker, random_source % 2)]))

    def move_replica(self, broker: int, random_source: int) -> None:
        if broker not in self.view.image.brokers:
            return
        place = self.place(random_source)
        partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=0)]
        topics = [AssignReplicasToDirsRequestTopicData(topic_id=place.topic.topic_id, partitions=partitions)]
        wanted = AssignReplicasToDirsRequestDirectoryData(id=directory(broker, random_source % 2), topics=topics)
        request = AssignReplicasToDirsRequest(broker_id=broker, broker_epoch=epoch(broker), directories=[wanted])
        plan = DirectoryAssignments(request, self.view)
        at_once(plan.answer())
        self.take([*plan.records])

    def alter(self, number: int, random_source: int) -> None:
        """Let the leader propose an in-sync set: itself and a random choice of the other replicas."""
        place = self.place(number)
        partition = place.partition
        if partition.leader == NO_LEADER:
            return
        others = [broker for broker in partition.replicas if broker != partition.leader]
        isr = [partition.leader, *(broker for bit, broker in enumerate(others) if random_source >> bit & 1)]
        requested = AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                AlterPartitionBrokerState(broker_id=broker, broker_epoch=epoch(broker)) for broker in isr
            ],
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=epoch(partition.leader),
            topics=[AlterPartitionRequestTopicData(topic_id=place.topic.topic_id, partitions=[requested])],
        )
        plan = IsrChanges(request, self.view, version=3)
        response = at_once(plan.answer())
        self.take([*plan.records])
        answer = response.topics[0].partitions[0]
        if not all(self.view.is_active(broker) for broker in isr):
            assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
        elif answer.error_code == ErrorCode.NONE:
            after = self.place(number).partition
            assert (answer.leader_epoch, answer.partition_epoch) == (after.leader_epoch, after.partition_epoch)

    def reassign(self, number: int, random_source: int) -> None:
        known = sorted(self.view.image.brokers)
        if not known:
            return
        start, count = random_source % len(known), 1 + random_source // 8 % 3
        replicas = [known[(start + step) % len(known)] for step in range(min(count, len(known)))]
        place = self.place(number)
        record = plan_move(self.view, place, replicas)
        self.aims[place.topic.name] = tuple(replicas)
        self.take([] if record is None else [record])

    def cancel(self, number: int, _: int) -> None:
        place = self.place(number)
        try:
            record = plan_cancellation(self.view, place)
        except KafkaError as error:
            assert error.code in (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
            return
        self.aims.pop(place.topic.name, None)
        self.take([record])
        assert not is_moving(self.place(number).partition)

    def prefer(self, _: int, __: int) -> None:
        self.take(made_by(self.view, plan_preferred_leaders))

    def sweep(self, _: int, __: int) -> None:
        self.take(made_by(self.view, plan_unclean_leaders))

    def settle(self) -> None:
        """Let all brokers return and catch up: all partitions get leaders, and all reassignments end."""
        for broker in BROKERS:
            self.start(broker, 1)
            self.unfence(broker, 0)
        for number, place in enumerate(list(self.view.places())):
            if place.partition.leader != NO_LEADER:
                self.alter(number, 255)
                after = self.place(number).partition
                assert not is_moving(after)
                assert set(after.isr) == set(after.replicas)
        assert all(self.place(int(name[1:])).partition.leader == NO_LEADER for name in self.aims)


EVENTS = [
    World.fence,
    World.unfence,
    World.stop,
    World.start,
    World.forget,
    World.lose_directory,
    World.move_replica,
    World.alter,
    World.reassign,
    World.cancel,
    World.prefer,
    World.sweep,
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 5), st.integers(0, 31)), max_size=30),
)
def test_random_changes_keep_partitions_consistent(
    elr: bool, unclean: bool, min_insync: int, events: list[Any]
) -> None:
    world = World(elr=elr, unclean=unclean, min_insync=min_insync)
    for event, who, random_source in events:
        event(world, who, random_source)
    world.settle()
    led = [place.partition for place in world.view.places() if place.partition.leader != NO_LEADER]
    assert not any(is_moving(partition) for partition in led)


def test_an_earlier_view_does_not_change() -> None:
    world = World(elr=True, unclean=False, min_insync=2)
    before: ControllerView = world.view
    world.fence(1, 0)
    assert not before.image.brokers[1].fenced
    assert world.view.image.brokers[1].fenced

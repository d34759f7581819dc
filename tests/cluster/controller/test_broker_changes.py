"""Partition changes when a broker is fenced, unfenced, shut down, unregistered, or loses a directory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.controller.plans.broker_changes import (
    plan_controlled_shutdown,
    plan_cordoned_directories,
    plan_fencing,
    plan_new_incarnation,
    plan_offline_directories,
    plan_unfencing,
    plan_unregistration,
)
from kwire.cluster.controller.view import ControllerView, usable_brokers
from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from tests.cluster.controller.support import (
    TOPIC_ID,
    broker_record,
    directory,
    epoch,
    made_by,
    one_partition,
    partition_of,
    partition_record,
    set_fields,
    topic_config,
    view_of,
)


def three_partitions(*, elr: bool = False, min_insync: int = 1, fenced: tuple[int, ...] = ()) -> ControllerView:
    batch: list[Any] = [broker_record(broker, directories=2, fenced=broker in fenced) for broker in (1, 2, 3)]
    batch.append(records.TopicRecord(name="t", topic_id=TOPIC_ID))
    batch += [partition_record(replicas, index) for index, replicas in enumerate(([1, 2], [2, 3], [3, 1]))]
    batch.append(topic_config("t", "min.insync.replicas", str(min_insync)))
    return view_of(batch, elr=elr)


def shown(made: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return each record with the fields that it changes; partitions by number."""
    return [
        (
            f"t-{each.partition_id}" if isinstance(each, records.PartitionChangeRecord) else type(each).__name__,
            set_fields(each),
        )
        for each in made
    ]


def test_a_fenced_broker_leaves_what_it_is_in_sync_with() -> None:
    view = three_partitions()
    made = made_by(view, plan_fencing, 1)
    assert shown(made) == [
        ("t-0", {"isr": [2], "leader": 2}),
        ("t-2", {"isr": [3]}),
        ("BrokerRegistrationChangeRecord", {"fenced": 1}),
    ]
    assert (made[-1].broker_id, made[-1].broker_epoch) == (1, epoch(1))
    assert view.after(made).image.brokers[1].fenced


def test_the_last_one_in_sync_leads_again_when_it_is_back() -> None:
    view = one_partition([1, 2], isr=[1])
    view = view.after(made_by(view, plan_fencing, 1))
    assert (partition_of(view).isr, partition_of(view).leader) == ((1,), -1)
    assert shown(made_by(view, plan_unfencing, 1)) == [
        ("BrokerRegistrationChangeRecord", {"fenced": -1}),
        ("t-0", {"leader": 1}),
    ]
    fenced = one_partition([1, 2], isr=[1], leader=-1, fenced=(1, 2))
    assert len(made_by(fenced, plan_unfencing, 2)) == 1, "one that is not in sync does not lead"


def test_an_unclean_leader_is_found_at_once_where_that_is_allowed() -> None:
    view = one_partition([1, 2], isr=[1], unclean=True)
    assert shown(made_by(view, plan_fencing, 1))[0] == ("t-0", {"isr": [2], "leader": 2, "leader_recovery_state": 1})


def test_eligible_leaders_are_kept_when_brokers_go() -> None:
    view = three_partitions(elr=True, min_insync=2)
    view = view.after(made_by(view, plan_fencing, 1))
    assert partition_of(view).eligible_leader_replicas == (1,)
    view = view.after(made_by(view, plan_fencing, 2))
    partition = partition_of(view)
    assert (partition.isr, partition.leader, partition.eligible_leader_replicas) == ((), -1, (1, 2))
    view = view.after(made_by(view, plan_unfencing, 1))
    partition = partition_of(view)
    assert (partition.isr, partition.leader, partition.eligible_leader_replicas) == ((1,), 1, (2,))


@pytest.mark.parametrize(("was_clean", "eligible"), [(True, (1,)), (False, ())])
def test_a_new_process_is_eligible_only_after_a_clean_end(was_clean: bool, eligible: tuple[int, ...]) -> None:
    view = three_partitions(elr=True, min_insync=2)
    view = view.after(made_by(view, plan_new_incarnation, 1, directories=(), was_clean=was_clean))
    partition = partition_of(view)
    assert (partition.isr, partition.leader, partition.eligible_leader_replicas) == ((2,), 2, eligible)


def test_an_unclean_start_costs_eligibility() -> None:
    view = three_partitions(elr=True, min_insync=2)
    view = view.after(made_by(view, plan_fencing, 1))
    assert shown(list(made_by(view, plan_new_incarnation, 1, directories=(), was_clean=False))) == [
        ("t-0", {"eligible_leader_replicas": []}),
        ("t-2", {"eligible_leader_replicas": []}),
    ]
    assert made_by(view, plan_new_incarnation, 1, directories=(), was_clean=True) == []


def test_without_eligible_leaders_every_new_process_leaves_the_in_sync_sets() -> None:
    view = three_partitions()
    for was_clean in (True, False):
        made = made_by(view, plan_new_incarnation, 1, directories=(), was_clean=was_clean)
        assert [each.partition_id for each in made] == [0, 2]


def test_a_broker_that_stops_gives_leaderships_away() -> None:
    view = three_partitions()
    made = made_by(view, plan_controlled_shutdown, 2)
    assert shown(made) == [
        ("BrokerRegistrationChangeRecord", {"in_controlled_shutdown": 1}),
        ("t-0", {"isr": [1]}),
        ("t-1", {"isr": [3], "leader": 3}),
    ]
    view = view.after(made)
    assert not view.is_active(2)
    assert made_by(view, plan_controlled_shutdown, 2) == []
    assert [broker.broker_id for broker in usable_brokers(view.image)] == [1, 3]


def test_a_broker_that_has_stopped_may_get_replicas() -> None:
    """A broker gets no replicas during its shutdown; once fenced, it counts like every fenced broker, as in Kafka."""
    view = three_partitions()
    view = view.after(made_by(view, plan_controlled_shutdown, 2))
    view = view.after(made_by(view, plan_fencing, 2))
    assert view.image.brokers[2].in_controlled_shutdown
    assert [(broker.broker_id, broker.is_fenced) for broker in usable_brokers(view.image)] == [
        (1, False),
        (2, True),
        (3, False),
    ]


def test_an_unregistered_broker_leaves_all_partitions() -> None:
    view = three_partitions(elr=True, min_insync=2)
    made = made_by(view, plan_unregistration, 3)
    assert shown(made)[-1] == ("UnregisterBrokerRecord", {})
    assert (made[-1].broker_id, made[-1].broker_epoch) == (3, epoch(3))
    view = view.after(made)
    assert 3 not in view.image.brokers
    assert all(3 not in partition.isr for partition in view.image.topics["t"].partitions)
    with pytest.raises(KafkaError) as rejected:
        made_by(view, plan_unregistration, 3)
    assert rejected.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_too_much_at_once_is_rejected() -> None:
    batch: list[Any] = [broker_record(1), broker_record(2), records.TopicRecord(name="t", topic_id=TOPIC_ID)]
    batch += [partition_record([1, 2], index) for index in range(10_000)]
    view = view_of(batch)
    with pytest.raises(KafkaError) as rejected:
        made_by(view, plan_unregistration, 1)
    assert rejected.value.code is ErrorCode.POLICY_VIOLATION
    assert len(made_by(view, plan_fencing, 1)) == 10_001, "changes without a request have no limit"


def test_a_failed_directory_takes_its_replicas_along() -> None:
    batch: list[Any] = [broker_record(1, directories=2), broker_record(2)]
    batch += [
        records.TopicRecord(name="t", topic_id=TOPIC_ID),
        partition_record([1, 2], 0),
        partition_record([1, 2], 1, directories=[directory(1, 1), directory(2)]),
    ]
    view = view_of(batch)
    made = made_by(view, plan_offline_directories, 1, [directory(1, 1), UUID(int=77)])
    assert shown(made) == [
        ("t-1", {"isr": [2], "leader": 2}),
        ("BrokerRegistrationChangeRecord", {"log_dirs": [directory(1)]}),
    ]
    view = view.after(made)
    assert made_by(view, plan_offline_directories, 1, [directory(1, 1)]) == [], "it is known"
    assert shown(made_by(view, plan_offline_directories, 1, [directory(1)])) == [("t-0", {"isr": [2], "leader": 2})]


def test_a_replica_in_a_failed_directory_does_not_lead() -> None:
    view = one_partition([1, 2], directories=2)
    view = view.after(made_by(view, plan_offline_directories, 2, [directory(2)]))
    assert partition_of(view).isr == (1,)
    view = view.after(made_by(view, plan_fencing, 1))
    assert partition_of(view).leader == -1
    assert shown(made_by(view, plan_unfencing, 1))[1] == ("t-0", {"leader": 1})


def test_cordoned_directories_get_no_replicas() -> None:
    view = three_partitions()
    assert plan_cordoned_directories(view, 1, None) == []
    assert plan_cordoned_directories(view, 1, []) == []
    view = view.after(plan_cordoned_directories(view, 1, [directory(1)]))
    assert len(usable_brokers(view.image)) == 3
    view = view.after(plan_cordoned_directories(view, 1, [directory(1, 1), directory(1)]))
    assert [broker.broker_id for broker in usable_brokers(view.image)] == [2, 3]
    assert shown(plan_cordoned_directories(view, 1, [])) == [
        ("BrokerRegistrationChangeRecord", {"cordoned_log_dirs": []})
    ]
    assert view.is_active(1), "what is there stays"


def test_cordoned_directories_are_not_written_before_their_metadata_version() -> None:
    view = three_partitions()
    older = records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_4_3_IV0 - 1)
    assert plan_cordoned_directories(view.after([older]), 1, [directory(1)]) == []
    assert len(plan_cordoned_directories(view, 1, [directory(1)])) == 1

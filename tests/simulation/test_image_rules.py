"""Image rules of a simulated cluster, applied to changes of the metadata."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.eligible_leaders import plan_clearing
from kwire.cluster.controller.plans.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.metadata.image import MetadataImage, PartitionImage
from kwire.protocol.messages.metadata_records import ConfigRecord
from kwire.simulation import Simulation
from tests.cluster.controller.support import TOPIC_ID, one_partition, place_of
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.image_rules import (
    MIN_INSYNC_REPLICAS,
    check_changes,
    check_unclean_start,
    elections_of_others,
    left_to_too_few,
    unasked,
    unclean_starts,
)
from tests.simulation.replica_rules import ReplicaRules

KEY = TOPIC_ID, 0
ALL_LIVE = frozenset({1, 2, 3})


def at_risk(isr: tuple[int, ...] = (2,), eligible: tuple[int, ...] = (1, 3)) -> ControllerView:
    """Return a view in which broker 2 leads, and three replicas must be in sync."""
    return one_partition(
        [1, 2, 3], elr=True, min_insync=3, isr=list(isr), leader=2, eligible_leader_replicas=list(eligible)
    )


def with_min_insync(view: ControllerView, value: int) -> ControllerView:
    change = ConfigRecord(
        resource_type=ConfigResourceType.TOPIC, resource_name="t", name=MIN_INSYNC_REPLICAS, value=str(value)
    )
    return view.after([change, *plan_clearing(view.image, [change])])


def changed(view: ControllerView, *, alive: frozenset[int] = ALL_LIVE, **target: Any) -> ControllerView:
    record = plan_partition_change(view, place_of(view), Target(**target), can_lead=lambda broker: broker in alive)
    return view.after([] if record is None else [record])


def crash_of_the_leader(view: ControllerView) -> list[ControllerView]:
    """Return views in order: broker 2 is fenced, registers after an unclean stop, and is unfenced."""
    states = [view, changed(view, isr=(), alive=frozenset({1, 3}))]
    states.append(changed(states[-1], lost=frozenset({2}), alive=frozenset({1, 3})))
    states.append(changed(states[-1]))
    return states


@pytest.mark.parametrize(
    ("before", "value", "is_left"),
    [
        (at_risk(), 2, True),
        (at_risk(), 1, False),
        (at_risk(isr=(2, 3), eligible=(1,)), 2, False),
        (at_risk(isr=(1, 2, 3), eligible=()), 2, False),
        (at_risk(eligible=()), 2, False),
    ],
)
def test_a_min_insync_change_may_leave_too_few_eligible_replicas(
    before: ControllerView, value: int, is_left: bool
) -> None:
    after = with_min_insync(before, value)
    assert list(left_to_too_few(before.image, after.image)) == ([KEY] if is_left else [])


def test_eligibility_lost_for_another_reason_does_not_excuse_a_loss() -> None:
    before = at_risk()
    assert not list(left_to_too_few(before.image, changed(before, lost=frozenset({1, 3})).image))


def forgiven(states: list[ControllerView]) -> set[Any]:
    """Return the partitions that the rules forgive after these states, in order."""
    ledger = Ledger()
    with Simulation(seed=1) as simulation:
        rules = ReplicaRules(simulation.cluster(brokers=3, controllers=3), ledger)
        for number, state in enumerate(states):
            rules.image_changed(dataclasses.replace(state.image, offset=10 * number))
    return ledger.forgiven


def test_only_a_partition_with_too_few_replicas_may_be_lost() -> None:
    before = at_risk()
    states = crash_of_the_leader(with_min_insync(before, 2))
    assert list(elections_of_others(states[-2].image, states[-1].image)) == [KEY]
    assert forgiven([before, *states]) == {KEY}
    assert not forgiven(states), "nobody has changed min.insync.replicas"


def test_with_enough_in_sync_replicas_again_no_loss_is_excused() -> None:
    before = at_risk()
    left = with_min_insync(before, 2)
    again = changed(left, isr=(2, 3))
    fewer = changed(again, isr=(2,), lost=frozenset({3}))
    assert forgiven([before, left, again, *crash_of_the_leader(fewer)]) == set()


def test_without_a_min_insync_change_only_eligible_replicas_lead() -> None:
    states = crash_of_the_leader(at_risk())
    assert not any(list(elections_of_others(old.image, new.image)) for old, new in pairwise(states))


# --- changes between states


def altered(image: MetadataImage, *, records: int = 1, **fields: Any) -> MetadataImage:
    """Return the next state, whose partition has these fields."""
    topic = image.topics["t"]
    later = dataclasses.replace(topic, partitions=(dataclasses.replace(topic.partitions[0], **fields),))
    return dataclasses.replace(image, offset=image.offset + records, topics={"t": later})


def with_broker(image: MetadataImage, broker_id: int, **fields: Any) -> MetadataImage:
    brokers = {**image.brokers, broker_id: dataclasses.replace(image.brokers[broker_id], **fields)}
    return dataclasses.replace(image, brokers=brokers)


def only(image: MetadataImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


def test_a_partition_changes_once_with_each_epoch() -> None:
    old = at_risk().image
    epoch = only(old).partition_epoch
    check_changes(old, altered(old, leader=1, partition_epoch=epoch + 1))
    check_changes(old, altered(old, leader=1, partition_epoch=epoch + 2, records=2))
    check_changes(old, altered(old, records=0))
    for later in (epoch - 1, epoch + 2):
        with pytest.raises(AssertionError, match="R10"):
            check_changes(old, altered(old, leader=1, partition_epoch=later))


def test_a_replica_that_becomes_eligible_was_in_sync() -> None:
    old = at_risk(isr=(1, 2), eligible=()).image
    next_epoch = only(old).partition_epoch + 1
    check_changes(old, altered(old, isr=(2,), eligible_leader_replicas=(1,), partition_epoch=next_epoch))
    wrong: dict[str, Any] = {"isr": (2,), "eligible_leader_replicas": (1, 3)}
    with pytest.raises(AssertionError, match="R12"):
        check_changes(old, altered(old, **wrong, partition_epoch=next_epoch))
    check_changes(old, altered(old, **wrong, partition_epoch=next_epoch + 1, records=2))  # perhaps in sync meanwhile


def test_a_replica_is_not_eligible_after_an_unclean_shutdown() -> None:
    old = at_risk().image
    again = with_broker(old, 3, broker_epoch=5000)
    wiped = with_broker(again, 3, directories=(KEY[0],))
    assert list(unclean_starts(old, again, lambda _: False)) == [3]
    assert not list(unclean_starts(old, again, lambda _: True))
    assert list(unclean_starts(old, wiped, lambda _: True)) == [3]
    for broker_id in (2, 3):
        with pytest.raises(AssertionError, match="R12"):
            check_unclean_start(again, broker_id)
    check_unclean_start(at_risk(eligible=(1,)).image, 3)


def test_a_replica_that_leaves_the_isr_by_itself_needs_no_proposal() -> None:
    old = at_risk(isr=(1, 2), eligible=()).image
    step = {"partition_epoch": only(old).partition_epoch + 1}

    def found(new: MetadataImage) -> set[int]:
        return set().union(*(brokers for _, _, brokers in unasked(old, new)))

    smaller, larger = altered(old, isr=(2,), **step), altered(old, isr=(1, 2, 3), **step)
    assert found(smaller) == {1}
    assert found(larger) == found(dataclasses.replace(larger, offset=larger.offset + 1)) == {3}
    assert not found(dataclasses.replace(smaller, offset=smaller.offset + 1)), "the other record may be of the broker"
    assert not found(with_broker(smaller, 1, in_controlled_shutdown=True))
    assert not found(altered(larger, records=0, leader_epoch=6))
    assert not found(altered(larger, partition_epoch=step["partition_epoch"] + 1))

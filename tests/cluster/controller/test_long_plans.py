"""Validity of a plan when partitions have changed since the plan was begun."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import pytest

from kwire.chunks import at_once
from kwire.cluster.controller.heartbeats import BrokerState, Decision, plan_heartbeat
from kwire.cluster.controller.long_plans import Planner, is_plan_valid
from kwire.cluster.controller.plans.broker_changes import plan_fencing
from kwire.cluster.controller.plans.leader_elections import plan_preferred_leaders
from kwire.cluster.controller.view import ControllerView
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.cluster.controller.support import (
    TOPIC_ID,
    broker_record,
    directory,
    epoch,
    one_partition,
    partition_record,
    topic_config,
    view_of,
)


def changed(view: ControllerView, index: int = 0, **fields: Any) -> ControllerView:
    """Return the view after a change of a partition, at a later offset."""
    change = records.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, **fields)
    image = view.image.apply([change], offset=view.image.offset + 1, epoch=1)
    return dataclasses.replace(view, image=image)


def holds(make: Planner, old: ControllerView, new: ControllerView, **options: bool) -> bool:
    return is_plan_valid(make, at_once(make(old)), old, new, **options)


def heartbeat(current: BrokerState, following: BrokerState) -> Planner:
    """Return the plan of a heartbeat of broker 1, which has lost its second directory."""
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch(1), current_metadata_offset=9999, offline_log_dirs=[directory(1, 1)]
    )
    return partial(plan_heartbeat, request=request, decision=Decision(current, following, True))


def test_a_broker_is_not_elected_in_a_directory_that_it_has_lost() -> None:
    """The replica moved to that directory while its broker was being unfenced."""
    old = one_partition([1], fenced=(1,), brokers=(1, 2), directories=2, leader=-1)
    new = changed(old, directories=[directory(1, 1)])
    make = heartbeat(BrokerState.FENCED, BrokerState.UNFENCED)
    assert at_once(make(old)) != at_once(make(new))
    assert not holds(make, old, new)


def test_the_second_half_of_a_plan_sees_partitions_after_the_first_half() -> None:
    batch: list[Any] = [broker_record(1, directories=2), broker_record(2)]
    batch.append(records.TopicRecord(name="t", topic_id=TOPIC_ID))
    partition = partition_record([1, 2], directories=[directory(1, 1), directory(2)])
    old = view_of([*batch, partition])
    new = changed(old, leader=1)
    make = heartbeat(BrokerState.UNFENCED, BrokerState.CONTROLLED_SHUTDOWN)
    assert at_once(make(old)) == at_once(make(new))
    assert holds(make, old, new)


@pytest.mark.parametrize(("replicas", "same"), [([3], False), ([3, 4], True)])
def test_the_first_partition_limits_min_insync_replicas_of_all(replicas: list[int], *, same: bool) -> None:
    batch: list[Any] = [broker_record(broker) for broker in range(1, 5)]
    batch += [records.TopicRecord(name="t", topic_id=TOPIC_ID), partition_record([3, 2]), partition_record([1, 2], 1)]
    old = view_of([*batch, topic_config("t", "min.insync.replicas", "2")], elr=True)
    new = changed(old, replicas=replicas, isr=replicas, directories=[directory(each) for each in replicas])
    make = partial(plan_fencing, broker_id=1)
    assert (at_once(make(old)) == at_once(make(new))) is same
    assert holds(make, old, new) is same


def test_a_limited_plan_may_leave_a_partition_to_the_next_one() -> None:
    batch: list[Any] = [broker_record(1), broker_record(2), records.TopicRecord(name="t", topic_id=TOPIC_ID)]
    old = view_of([*batch, *(partition_record([1, 2], index, leader=2) for index in range(3))])
    make = partial(plan_preferred_leaders, limit=2)
    assert holds(make, old, changed(old, 2, isr=[1, 2]), is_partial=True)
    assert not holds(make, old, changed(old, 1, isr=[2]), is_partial=True)
    assert not holds(make, old, changed(old, 2, isr=[1, 2]))

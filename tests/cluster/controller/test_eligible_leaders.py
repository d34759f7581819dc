"""Eligible leader replicas: the effect of min.insync.replicas, and the sources of topic settings."""

from __future__ import annotations

import pytest

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.eligible_leaders import check_min_insync, plan_clearing, plan_safe_min_insync
from kwire.cluster.controller.plans.configs import AlterOperation, plan_replacement
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ConfigRecord
from tests.cluster.controller.support import (
    CONTROLLER,
    SETTINGS,
    one_partition,
    partition_of,
    plan_incremental,
    view_of,
)

MIN_INSYNC = "min.insync.replicas"
TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


def config(kind: int, name: str, value: str | None, key: str = MIN_INSYNC) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def test_the_cluster_gets_a_value_and_brokers_lose_theirs() -> None:
    view = view_of([config(BROKER, "1", "2"), config(TOPIC, "t", "3"), config(BROKER, "2", "1", "log.retention.ms")])
    assert plan_safe_min_insync(view) == [config(BROKER, "", str(SETTINGS[MIN_INSYNC])), config(BROKER, "1", None)]
    assert plan_safe_min_insync(view_of([config(BROKER, "", "2")])) == []


@pytest.mark.parametrize(
    ("change", "is_rejected"),
    [
        (config(BROKER, "1", "2"), True),
        (config(BROKER, "1", None), True),
        (config(BROKER, "", None), True),
        (config(BROKER, "", "2"), False),
        (config(TOPIC, "t", None), False),
        (config(BROKER, "1", "2", "log.retention.ms"), False),
    ],
)
def test_config_changes_that_break_eligible_leader_replicas_are_rejected(
    change: ConfigRecord, is_rejected: bool
) -> None:
    check_min_insync(one_partition([1]).image, [change])
    view = one_partition([1], elr=True)
    if not is_rejected:
        check_min_insync(view.image, [change])
        return
    with pytest.raises(KafkaError) as rejected:
        check_min_insync(view.image, [change])
    assert rejected.value.code is ErrorCode.INVALID_CONFIG


def test_a_min_insync_change_clears_all_eligible_leaders() -> None:
    view = one_partition([1, 2], elr=True, min_insync=2, isr=[1], eligible_leader_replicas=[2])
    for change, name in ((config(TOPIC, "t", "1"), "t"), (config(BROKER, "", "1"), "")):
        (clearing,) = plan_clearing(view.image, [change, config(TOPIC, "t", "5", "retention.ms")])
        assert clearing.topic_name == name
        assert partition_of(view.after([change, clearing])).eligible_leader_replicas == ()
    assert plan_clearing(one_partition([1]).image, [config(TOPIC, "t", "1")]) == []


def test_the_nearest_setting_counts() -> None:
    view = one_partition([1, 2, 3], min_insync=3)
    topic = view.image.topics["t"]
    assert view.min_insync_replicas(topic) == 3
    bare = view.after([config(TOPIC, "t", None)])
    assert bare.min_insync_replicas(topic) == 1
    cluster = bare.after([config(BROKER, "", "2"), config(BROKER, "1", "3")])
    assert cluster.min_insync_replicas(topic) == 2
    own = cluster.after([config(BROKER, str(CONTROLLER), "3")])
    assert own.min_insync_replicas(topic) == 3
    assert own.after([config(TOPIC, "t", "9")]).min_insync_replicas(topic) == 3, "at most the replication factor"
    unclean = "unclean.leader.election.enable"
    assert not view.allows_unclean_election(topic)
    assert view.after([config(TOPIC, "t", None, unclean), config(BROKER, "", "true", unclean)]).allows_unclean_election(
        topic
    )


@pytest.mark.parametrize("nonsense", ["abc", "0", ""])
def test_malformed_settings_are_ignored(nonsense: str) -> None:
    view = one_partition([1, 2, 3], min_insync=1)
    topic = view.image.topics["t"]
    unclean = "unclean.leader.election.enable"
    for resource in ((TOPIC, "t"), (BROKER, str(CONTROLLER)), (BROKER, "")):
        view = view.after([config(*resource, nonsense), config(*resource, nonsense, unclean)])
    assert view.min_insync_replicas(topic) == SETTINGS[MIN_INSYNC]
    assert view.allows_unclean_election(topic) == SETTINGS[unclean]
    view = view.after([config(BROKER, "", "2")])
    assert view.min_insync_replicas(topic) == 2


def test_min_insync_changes_are_checked_and_clear_eligible_leaders() -> None:
    view = one_partition([1, 2], elr=True, min_insync=2)
    made = plan_incremental(view.image, (TOPIC, "t"), [(MIN_INSYNC, AlterOperation.SET, "1")], settings=SETTINGS)
    assert [type(each).__name__ for each in made] == ["ConfigRecord", "ClearElrRecord"]
    made = plan_replacement(view.image, (TOPIC, "t"), {}, settings=SETTINGS)
    assert [type(each).__name__ for each in made] == ["ConfigRecord", "ConfigRecord", "ClearElrRecord"]
    with pytest.raises(KafkaError) as rejected:
        plan_incremental(view.image, (BROKER, "1"), [(MIN_INSYNC, AlterOperation.SET, "1")], settings=SETTINGS)
    assert rejected.value.code is ErrorCode.INVALID_CONFIG

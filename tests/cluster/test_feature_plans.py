"""Feature levels that may be set, and the errors of Kafka's controller for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.controller.plans.features import FeatureUpdate, plan_features
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.registrations import BrokerRegistration, ControllerRegistration, SupportedFeature
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import FeatureLevelRecord

SUPPORTED = {"metadata.version": (7, 30), "kraft.version": (0, 1), "group.version": (0, 1)}
IMAGE = MetadataImage(features={"metadata.version": 20, "group.version": 1})
UP, SAFE, UNSAFE = 1, 2, 3


def plan(*updates: tuple[str, int, int]) -> list[tuple[str, int]]:
    wishes = [FeatureUpdate(name=name, level=level, upgrade_type=kind) for name, level, kind in updates]
    records = plan_features(IMAGE, wishes, controller_id=1, supported=SUPPORTED)
    return [(record.name, record.feature_level) for record in records]


def test_levels_are_raised_lowered_and_left() -> None:
    assert plan() == []
    assert plan(("metadata.version", 20, UP), ("kraft.version", 1, UP), ("group.version", 1, SAFE)) == []
    assert plan(("metadata.version", 30, UP), ("group.version", 0, SAFE)) == [
        ("metadata.version", 30),
        ("group.version", 0),
    ]


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_metadata_goes_down_where_no_record_has_changed(kind: int) -> None:
    image = MetadataImage().apply([FeatureLevelRecord(name="metadata.version", feature_level=29)], offset=0, epoch=1)
    requested = FeatureUpdate(name="metadata.version", level=25, upgrade_type=kind)
    assert plan_features(image, [requested], controller_id=1) == [
        FeatureLevelRecord(name="metadata.version", feature_level=25)
    ]


def test_the_last_update_of_a_feature_applies() -> None:
    assert plan(("metadata.version", 99, UP), ("metadata.version", 21, UP)) == [("metadata.version", 21)]


FEATURES = (SupportedFeature("metadata.version", 7, 29), SupportedFeature("group.version", 0, 1))
CONTROLLER: dict[str, Any] = {"incarnation_id": UUID(int=1), "endpoints": ()}
BROKER: dict[str, Any] = {"broker_epoch": 1, "rack": None, "in_controlled_shutdown": False, "directories": ()}
OLD_BROKER = BrokerRegistration(broker_id=7, features=FEATURES, fenced=True, **CONTROLLER, **BROKER)
OLD_CONTROLLER = ControllerRegistration(controller_id=8, features=FEATURES, **CONTROLLER)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ({"brokers": {7: OLD_BROKER}}, "Broker 7 only supports versions 7-29"),
        ({"controllers": {8: OLD_CONTROLLER}}, "Controller 8 only supports versions 7-29"),
        ({"controllers": {8: replace(OLD_CONTROLLER, features=())}}, "Controller 8 does not support this feature."),
    ],
)
def test_every_registered_node_must_support_a_level(nodes: dict[str, Any], why: str) -> None:
    image = replace(IMAGE, **nodes)
    newest = FeatureUpdate(name="metadata.version", level=30, upgrade_type=UP)
    with pytest.raises(KafkaError, match=why) as rejected:
        plan_features(image, [newest], controller_id=1, supported=SUPPORTED)
    assert rejected.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_levels_that_old_nodes_support_are_set() -> None:
    image = replace(IMAGE, brokers={7: OLD_BROKER}, controllers={8: OLD_CONTROLLER})
    for update, controller in ((("metadata.version", 29, UP), 1), (("group.version", 0, SAFE), 1)):
        name, level, kind = update
        requested = FeatureUpdate(name=name, level=level, upgrade_type=kind)
        assert plan_features(image, [requested], controller_id=controller, supported=SUPPORTED)
    newest = FeatureUpdate(name="metadata.version", level=30, upgrade_type=UP)
    assert plan_features(replace(image, brokers={}), [newest], controller_id=8, supported=SUPPORTED)


def test_a_feature_that_a_node_does_not_know_can_be_removed() -> None:
    image = replace(IMAGE, controllers={8: replace(OLD_CONTROLLER, features=())})
    gone = FeatureUpdate(name="group.version", level=0, upgrade_type=SAFE)
    assert plan_features(image, [gone], controller_id=1, supported=SUPPORTED)


def test_voters_of_a_static_quorum_must_have_registered() -> None:
    image = replace(IMAGE, controllers={8: OLD_CONTROLLER})
    gone = FeatureUpdate(name="group.version", level=0, upgrade_type=SAFE)
    assert plan_features(image, [gone], controller_id=1, supported=SUPPORTED, static_voters=[1, 8])
    with pytest.raises(KafkaError, match="controller 9 has not registered"):
        plan_features(image, [gone], controller_id=1, supported=SUPPORTED, static_voters=[1, 8, 9])


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (("metadata.version", 31, UP), "Local controller 1 only supports versions 7-30"),
        (("metadata.version", 6, UNSAFE), "Local controller 1 only supports versions 7-30"),
        (("metadata.version", -1, UP), "A feature version cannot be less than 0."),
        (("metadata.version", 30, 0), "The controller does not support the given upgrade type."),
        (("metadata.version", 30, 4), "The controller does not support the given upgrade type."),
        (("metadata.version", 19, UP), "without setting the upgrade type to either safe or unsafe downgrade."),
        (("metadata.version", 19, SAFE), "because it might delete metadata information."),
        (("metadata.version", 19, UNSAFE), "Unsafe metadata downgrade is not supported in this version."),
        (("metadata.version", 30, SAFE), "Can't downgrade to a newer version."),
        (("kraft.version", 0, SAFE), "Can't downgrade the version of this feature."),
        (("never.heard", 1, UP), "Local controller 1 does not support this feature."),
        (("never.heard", 0, SAFE), "Feature never.heard not found."),
    ],
)
def test_an_invalid_feature_update_fails_all_updates(update: tuple[str, int, int], why: str) -> None:
    with pytest.raises(KafkaError) as rejected:
        plan(("group.version", 0, SAFE), update)
    assert rejected.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert str(rejected.value.message).startswith("The update failed for all features since")
    assert str(rejected.value.message).endswith(why)

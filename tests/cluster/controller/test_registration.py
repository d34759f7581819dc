"""Broker registration: which brokers may register, and the record's fields."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.controller.plans.registration import (
    check_broker_registration,
    plan_broker_registration,
    plan_controller_registration,
    registration_record,
)
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from kwire.protocol.messages.controller_registration import (
    ControllerRegistrationFeature,
    ControllerRegistrationListener,
    ControllerRegistrationRequest,
)
from tests.cluster.controller.support import (
    broker_record,
    directory,
    epoch,
    made_by,
    one_partition,
    partition_of,
    view_of,
)

NEW, OLD = UUID(int=9), UUID(int=501)
NEXT = 3000


def feature(name: str, low: int, high: int) -> BrokerRegistrationFeature:
    return BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)


LEVEL = feature(METADATA_VERSION, METADATA_VERSION_4_3_IV0, METADATA_VERSION_4_3_IV0)


def request(broker: int = 1, **fields: Any) -> BrokerRegistrationRequest:
    made = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id="cluster",
        incarnation_id=NEW,
        listeners=[BrokerRegistrationListener(name="PLAINTEXT", host="h", port=9)],
        features=[LEVEL],
        rack="r",
        log_dirs=[directory(broker)],
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def registered(
    view: ControllerView,
    requested: BrokerRegistrationRequest,
    *,
    version: int = 4,
    has_session: bool = False,
    has_heartbeat: bool = False,
    kraft: int = 0,
) -> tuple[list[Any], int]:
    check_broker_registration(
        view,
        requested,
        version=version,
        cluster_id="cluster",
        has_session=lambda _: has_session,
        has_heartbeat=has_heartbeat,
        kraft_version=kraft,
    )
    made = made_by(view, plan_broker_registration, requested, version=version)
    record = registration_record(view, requested, NEXT)
    return [*made, record], record.broker_epoch


VIEW = one_partition([1, 2])


def test_a_new_broker_is_fenced_at_first() -> None:
    (record,), broker_epoch = registered(VIEW, request(8))
    assert broker_epoch == NEXT
    assert isinstance(record, records.RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.rack, record.incarnation_id) == (NEXT, True, "r", NEW)
    assert [(end.name, end.host, end.port) for end in record.end_points] == [("PLAINTEXT", "h", 9)]
    assert [each.name for each in record.features] == [METADATA_VERSION]
    assert record.log_dirs == [directory(8)]


def test_a_new_process_leaves_the_in_sync_sets_first() -> None:
    made, broker_epoch = registered(VIEW, request())
    assert broker_epoch == NEXT
    assert [type(each).__name__ for each in made] == ["PartitionChangeRecord", "RegisterBrokerRecord"]
    after = VIEW.after(made)
    assert partition_of(after).isr == (2,)
    assert after.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("version", "previous", "eligible"),
    [(4, epoch(1), (1,)), (3, epoch(1), (1,)), (2, epoch(1), ()), (4, -1, ()), (4, epoch(1) - 1, ())],
)
def test_a_clean_shutdown_is_recognised_by_the_previous_broker_epoch(
    version: int, previous: int, eligible: tuple[int, ...]
) -> None:
    view = one_partition([1, 2], elr=True, min_insync=2)
    features = [LEVEL, feature(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1)]
    made, _ = registered(view, request(previous_broker_epoch=previous, features=features), version=version)
    assert partition_of(view.after(made)).eligible_leader_replicas == eligible


@pytest.mark.parametrize("has_session", [True, False])
def test_the_same_process_keeps_its_epoch_and_its_standing(has_session: bool) -> None:
    (record,), broker_epoch = registered(VIEW, request(incarnation_id=OLD, rack="new"), has_session=has_session)
    assert broker_epoch == record.broker_epoch == epoch(1)
    assert (record.fenced, record.rack) == (False, "new")
    assert record.cordoned_log_dirs is None


@pytest.mark.parametrize(("level", "cordoned"), [(30, [directory(1, 1)]), (29, None)])
def test_the_same_process_keeps_its_cordoned_directories(level: int, cordoned: list[UUID] | None) -> None:
    """The remaining directories stay cordoned, if the metadata version supports cordoned directories."""
    before = broker_record(1, directories=3, cordoned_log_dirs=[directory(1, 1), directory(1, 2)])
    view = view_of([before, records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)])
    features = [feature(METADATA_VERSION, 1, 40)]
    directories = [directory(1), directory(1, 1)]
    (again,), _ = registered(view, request(incarnation_id=OLD, log_dirs=directories, features=features))
    assert again.cordoned_log_dirs == cordoned
    (new,), _ = registered(view, request(log_dirs=directories, features=features))
    assert new.cordoned_log_dirs is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UUID(int=1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1), UUID(int=99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1), directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1), directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": [feature(METADATA_VERSION, 1, 29)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [feature(METADATA_VERSION, 31, 40)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [LEVEL, feature("some.feature", 1, 2)]}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_registrations_that_are_rejected(fields: dict[str, Any], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as rejected:
        registered(VIEW, request(**fields))
    assert rejected.value.code is code


def test_another_process_waits_for_the_session_to_end() -> None:
    with pytest.raises(KafkaError) as rejected:
        registered(VIEW, request(), has_session=True)
    assert rejected.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_process_after_a_clean_stop_need_not_wait() -> None:
    _, broker_epoch = registered(VIEW, request(previous_broker_epoch=epoch(1)), has_session=True)
    assert broker_epoch == NEXT
    with pytest.raises(KafkaError) as rejected:
        registered(VIEW, request(previous_broker_epoch=epoch(1) - 1), has_session=True)
    assert rejected.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another process has been registered since"


def test_a_live_broker_is_not_replaced_by_a_request_with_its_epoch() -> None:
    with pytest.raises(KafkaError) as rejected:
        registered(VIEW, request(previous_broker_epoch=epoch(1)), has_session=True, has_heartbeat=True)
    assert rejected.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    registered(VIEW, request(previous_broker_epoch=epoch(1)), has_session=False, has_heartbeat=True)


def test_a_broker_must_support_the_finalized_features() -> None:
    with pytest.raises(KafkaError) as rejected:
        registered(one_partition([1, 2], elr=True), request())
    assert rejected.value.code is ErrorCode.UNSUPPORTED_VERSION, "eligible.leader.replicas.version is not named"
    with pytest.raises(KafkaError) as rejected:
        registered(VIEW, request(), kraft=1)
    assert rejected.value.code is ErrorCode.UNSUPPORTED_VERSION
    made, _ = registered(VIEW, request(8, features=[LEVEL, feature("kraft.version", 0, 1)]), kraft=1)
    assert [each.name for each in made[0].features] == [METADATA_VERSION, "kraft.version"]


def test_a_controller_registers() -> None:
    record = plan_controller_registration(
        ControllerRegistrationRequest(
            controller_id=7,
            incarnation_id=NEW,
            listeners=[ControllerRegistrationListener(name="CONTROLLER", host="h", port=8, security_protocol=1)],
            features=[
                ControllerRegistrationFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)
            ],
        )
    )
    after = VIEW.after([record]).image.controllers[7]
    assert (after.incarnation_id, after.endpoints[0].port, after.features[0].max_level) == (NEW, 8, 1)

"""Registration of brokers and controllers: checks, and the resulting records (KIP-631, KIP-919).

A broker's epoch is the offset at which its current process was registered. The same process may register again, for
example with other listeners, and keeps its epoch. Another process with the same id gets a new epoch. After an unclean
end, its registration is rejected until the session of the previous process has expired. After a clean shutdown it is
accepted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kwire.chunks import Pieces
from kwire.cluster.controller.plans.broker_changes import can_cordon, plan_new_incarnation
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.directory_ids import is_reserved
from kwire.cluster.metadata.features import KRAFT_VERSION, METADATA_VERSION
from kwire.cluster.metadata.registrations import BrokerRegistration
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.broker_registration import BrokerRegistrationRequest
from kwire.protocol.messages.controller_registration import ControllerRegistrationRequest
from kwire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

CLEAN_SHUTDOWN_SINCE_VERSION = 3
"""First version of BrokerRegistration with the epoch of the last clean shutdown."""


def check_broker_registration(
    view: ControllerView,
    request: BrokerRegistrationRequest,
    *,
    version: int,
    cluster_id: str,
    has_session: Callable[[BrokerRegistration], bool],
    has_heartbeat: bool = False,
    kraft_version: int = 0,
) -> None:
    """Raise KafkaError for a registration that is rejected.

    `has_session` returns True if the process registered under this id may be alive. `has_heartbeat` is True if that
    process has sent heartbeats to this controller, which has not requested its shutdown.
    """
    if request.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {cluster_id}, but got {request.cluster_id}"
        )
    existing = view.image.brokers.get(request.broker_id)
    was_clean = _was_clean(existing, request, version)
    # The previous broker epoch is no proof of a clean shutdown while that process sends heartbeats: clients could guess
    # it.
    is_other = existing is not None and existing.incarnation_id != request.incarnation_id
    if existing is not None and is_other and (has_heartbeat or not was_clean) and has_session(existing):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with id {request.broker_id}. After a restart, try again until its session "
            "has expired.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "ZooKeeper brokers cannot register here.")
    _check_directories(view, request)
    _check_features(request, {**view.image.features, KRAFT_VERSION: kraft_version})


def plan_broker_registration(
    view: ControllerView, request: BrokerRegistrationRequest, *, version: int
) -> Pieces[Sequence[PartitionChangeRecord]]:
    """Return the records of the partitions that a registration changes; `registration_record` comes after them."""
    existing = view.image.brokers.get(request.broker_id)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        return []
    was_clean = _was_clean(existing, request, version)
    return (yield from plan_new_incarnation(view, request.broker_id, directories=request.log_dirs, was_clean=was_clean))


def _was_clean(existing: BrokerRegistration | None, request: BrokerRegistrationRequest, version: int) -> bool:
    """Return True if the previous process has ended with a clean shutdown."""
    return (
        version >= CLEAN_SHUTDOWN_SINCE_VERSION
        and existing is not None
        and request.previous_broker_epoch == existing.broker_epoch
    )


def registration_record(
    view: ControllerView, request: BrokerRegistrationRequest, next_offset: int
) -> RegisterBrokerRecord:
    """Return the broker's registration with its epoch; `next_offset` is that of the registration's first record."""
    existing = view.image.brokers.get(request.broker_id)
    if existing is None or existing.incarnation_id != request.incarnation_id:
        return _broker_record(request, next_offset)
    return _renewed_record(view, request, existing)


def _check_directories(view: ControllerView, request: BrokerRegistrationRequest) -> None:
    """Reject a log directory of another broker: its id identifies the replicas in it (KIP-858)."""
    directories = request.log_dirs
    message = None
    if not directories:
        message = "No directories specified in request"
    elif any(is_reserved(directory) for directory in directories):
        message = "Reserved directory ID in request"
    elif len(set(directories)) != len(directories):
        message = "Duplicate directory ID in request"
    else:
        for broker in view.image.brokers.values():
            shared = set(directories).intersection(broker.directories)
            if shared and broker.broker_id != request.broker_id:
                message = f"Broker {broker.broker_id} is already registered with directory {min(shared)}"
    if message:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, message)


def _check_features(request: BrokerRegistrationRequest, finalized: Mapping[str, int]) -> None:
    """Reject a broker that does not support all finalised levels; features that it does not name have level 0."""
    supported = {
        feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features
    }
    if METADATA_VERSION not in supported:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'")
    required = {name: level for name, level in finalized.items() if level} | {
        name: finalized.get(name, 0) for name in supported
    }
    for name, level in required.items():
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support version {level} of {name}, which is "
                f"finalized; it supports {low} to {high}.",
            )


def _broker_record(request: BrokerRegistrationRequest, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def _renewed_record(
    view: ControllerView, request: BrokerRegistrationRequest, existing: BrokerRegistration
) -> RegisterBrokerRecord:
    """Return the process's new registration; it keeps the state that heartbeats have changed."""
    record = _broker_record(request, existing.broker_epoch)
    record.fenced = existing.fenced
    record.in_controlled_shutdown = existing.in_controlled_shutdown
    if can_cordon(view):
        cordoned = [each for each in existing.cordoned_directories if each in request.log_dirs]
        record.cordoned_log_dirs = cordoned or None
    return record


def plan_controller_registration(request: ControllerRegistrationRequest) -> RegisterControllerRecord:
    """Return the record of a controller, which may register any number of times."""
    return RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            ControllerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )

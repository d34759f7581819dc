"""What happens to a broker and to its partitions when it is fenced, unfenced, shut down, forgotten, or loses a disk.

Which partitions are concerned is found by one pass over the image. Each operation's records fit together: those of the
partitions are what follows from the one of the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from kwire.cluster.controller.election import Election
from kwire.cluster.controller.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.view import ControllerView, Place, check_size, directory_of
from kwire.cluster.directory_ids import is_online
from kwire.cluster.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.image import NO_LEADER, BrokerRegistration, PartitionImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)

YES, NO = 1, -1
"""How a BrokerRegistrationChangeRecord says what a broker is now."""


def plan_updates(
    view: ControllerView,
    places: Iterable[Place],
    *,
    removed: int | None = None,
    added: int | None = None,
    lost: int | None = None,
) -> list[PartitionChangeRecord]:
    """Records for partitions that a broker leaves or may lead.

    `removed` goes from the in-sync sets and leads nothing; `lost` may also have lost records, and is not eligible
    either; `added` may lead, though the image does not yet say so.
    """
    gone = {removed, lost}

    def may_lead(broker: int) -> bool:
        return broker not in gone and (broker == added or view.is_active(broker))

    records = []
    for place in places:
        target = Target(
            isr=tuple(broker for broker in place.partition.isr if broker not in gone),
            election=Election.UNCLEAN if view.allows_unclean_election(place.topic) else Election.ONLINE,
            lost=frozenset() if lost is None else frozenset({lost}),
        )
        record = plan_partition_change(view, place, target, may_lead=may_lead)
        if record is not None:
            records.append(record)
    return records


def plan_fencing(view: ControllerView, broker_id: int) -> list[Any]:
    """The broker is out of touch: it leads nothing and is in sync with nobody."""
    broker = view.image.brokers[broker_id]
    records: list[Any] = [*plan_updates(view, _in_sync(view, broker_id), removed=broker_id)]
    return [*records, _change(broker, fenced=YES)]


def plan_unfencing(view: ControllerView, broker_id: int) -> list[Any]:
    """The broker lives: it may lead what nobody leads."""
    broker = view.image.brokers[broker_id]
    leaderless = (place for place in view.places() if place.partition.leader == NO_LEADER)
    return [_change(broker, fenced=NO), *plan_updates(view, leaderless, added=broker_id)]


def plan_controlled_shutdown(view: ControllerView, broker_id: int) -> list[Any]:
    """The broker wants to stop: others lead what it leads."""
    broker = view.image.brokers[broker_id]
    records: list[Any] = [] if broker.in_controlled_shutdown else [_change(broker, in_controlled_shutdown=YES)]
    return [*records, *plan_updates(view, _in_sync(view, broker_id), removed=broker_id)]


def plan_unregistration(view: ControllerView, broker_id: int) -> list[Any]:
    """Forget a broker for good."""
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    places = [place for place in view.places() if _is_known_good(place, broker_id)]
    records: list[Any] = [*plan_updates(view, places, removed=broker_id)]
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch))
    check_size(len(records))
    return records


def plan_new_incarnation(
    view: ControllerView, broker_id: int, *, directories: Collection[UUID], was_clean: bool
) -> list[PartitionChangeRecord]:
    """The broker has started again: it is in sync with nobody yet.

    After an unclean end, as by a power cut, its logs may lack what it had acknowledged (KIP-966). After a clean one,
    partitions that nobody else has are as they were, and are left alone: there may be many of them. `directories` are
    those that it comes back with.
    """

    def is_as_it_was(partition: PartitionImage) -> bool:
        is_alone = partition.replicas == (broker_id,)
        return was_clean and is_alone and is_online(directory_of(partition, broker_id), directories)

    if view.has_eligible_leaders and not was_clean:
        places = (place for place in view.places() if _is_known_good(place, broker_id))
        return plan_updates(view, places, lost=broker_id)
    places = (place for place in _in_sync(view, broker_id) if not is_as_it_was(place.partition))
    return plan_updates(view, places, removed=broker_id)


def plan_offline_directories(view: ControllerView, broker_id: int, offline: Collection[UUID]) -> list[Any]:
    """Log directories of a broker have failed; those that are known to have are passed over."""
    broker = view.image.brokers[broker_id]
    failed = {directory for directory in broker.directories if directory in offline}
    if not failed:
        return []
    places = (
        place
        for place in view.places()
        if broker_id in place.partition.replicas and directory_of(place.partition, broker_id) in failed
    )
    records: list[Any] = [*plan_updates(view, places, removed=broker_id)]
    left = [directory for directory in broker.directories if directory not in failed]
    if left:
        # An empty list would say that nothing changes; a broker without any directory ends by itself.
        records.append(_change(broker, log_dirs=left))
    return records


def plan_cordoned_directories(view: ControllerView, broker_id: int, cordoned: Collection[UUID] | None) -> list[Any]:
    """Log directories of a broker take no new replicas from now on (KIP-1066); None: the broker does not know yet."""
    broker = view.image.brokers[broker_id]
    if view.image.features.get(METADATA_VERSION, 0) < METADATA_VERSION_4_3_IV0:
        return []  # KIP-1066 needs that level
    if cordoned is None or set(cordoned) == set(broker.cordoned_directories):
        return []
    return [_change(broker, cordoned_log_dirs=list(cordoned))]


def _change(broker: BrokerRegistration, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, **changes)


def _in_sync(view: ControllerView, broker_id: int) -> list[Place]:
    return [place for place in view.places() if broker_id in place.partition.isr]


def _is_known_good(place: Place, broker_id: int) -> bool:
    return broker_id in place.partition.isr or broker_id in place.partition.eligible_leader_replicas

"""Changes of a broker and its partitions when it is fenced, unfenced, shut down, unregistered, or loses a disk.

One pass over the image, in steps, finds the affected partitions (long_plans.py). All records of an operation
are one batch: the change of the broker causes the changes of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

from kwire.chunks import Pieces
from kwire.cluster.controller.election import Election
from kwire.cluster.controller.limits import check_records
from kwire.cluster.controller.long_plans import places_where, records_for
from kwire.cluster.controller.plans.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.view import ControllerView, Place, directory_of
from kwire.cluster.directory_ids import is_online
from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage
from kwire.cluster.metadata.registrations import BrokerRegistration
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)

YES, NO = 1, -1
"""Values of the flags in a BrokerRegistrationChangeRecord."""


def plan_updates(
    view: ControllerView,
    places: Sequence[Place],
    *,
    removed: int | None = None,
    added: int | None = None,
    lost: int | None = None,
) -> Pieces[list[PartitionChangeRecord]]:
    """Return records for partitions that a broker leaves or may lead.

    The `removed` broker leads nothing and leaves the in-sync sets; without ELR, the last in-sync replica of a partition
    stays. The `lost` broker may also have lost records, and is not eligible either. The `added` broker may lead,
    although the image does not show it as active yet.
    """
    removed_ids = {removed, lost}

    def can_lead(broker: int) -> bool:
        return broker not in removed_ids and (broker == added or view.is_active(broker))

    def plan(place: Place) -> PartitionChangeRecord | None:
        target = Target(
            isr=tuple(broker for broker in place.partition.isr if broker not in removed_ids),
            election=Election.UNCLEAN if view.allows_unclean_election(place.topic) else Election.ONLINE,
            lost=frozenset() if lost is None else frozenset({lost}),
        )
        return plan_partition_change(view, place, target, can_lead=can_lead)

    return records_for(places, plan)


def plan_fencing(view: ControllerView, broker_id: int) -> Pieces[list[Any]]:
    """Fence a broker: it leads nothing and leaves the in-sync sets.

    Without ELR it stays in the sets of which it is the last member.
    """
    places = yield from places_where(view, _has_in_sync(broker_id))
    records: list[Any] = yield from plan_updates(view, places, removed=broker_id)
    return [*records, _change(view.image.brokers[broker_id], fenced=YES)]


def plan_unfencing(view: ControllerView, broker_id: int) -> Pieces[list[Any]]:
    """Unfence a broker: it may lead partitions that have no leader."""
    places = yield from places_where(view, lambda partition: partition.leader == NO_LEADER)
    records: list[Any] = yield from plan_updates(view, places, added=broker_id)
    return [_change(view.image.brokers[broker_id], fenced=NO), *records]


def plan_controlled_shutdown(view: ControllerView, broker_id: int) -> Pieces[list[Any]]:
    """Begin the controlled shutdown of a broker: other brokers lead its partitions."""
    broker = view.image.brokers[broker_id]
    places = yield from places_where(view, _has_in_sync(broker_id))
    records: list[Any] = yield from plan_updates(view, places, removed=broker_id)
    return records if broker.in_controlled_shutdown else [_change(broker, in_controlled_shutdown=YES), *records]


def plan_unregistration(view: ControllerView, broker_id: int) -> Pieces[list[Any]]:
    """Unregister a broker. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    places = yield from places_where(view, _is_eligible(broker_id))
    records: list[Any] = yield from plan_updates(view, places, removed=broker_id)
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch))
    check_records(len(records))
    return records


def plan_new_incarnation(
    view: ControllerView, broker_id: int, *, directories: Collection[UUID], was_clean: bool
) -> Pieces[list[PartitionChangeRecord]]:
    """Remove a broker from the in-sync sets (as `plan_updates` does) when a new process of it registers.

    After an unclean end, such as a power cut, its logs may lack acknowledged records (KIP-966). After a clean end,
    partitions with no other replica are unchanged and need no record: there may be many of them. `directories` are the
    ids of the new process.
    """

    def is_to_be_removed(partition: PartitionImage) -> bool:
        is_alone = partition.replicas == (broker_id,)
        is_unchanged = was_clean and is_alone and is_online(directory_of(partition, broker_id), directories)
        return broker_id in partition.isr and not is_unchanged

    if view.is_elr_enabled and not was_clean:
        places = yield from places_where(view, _is_eligible(broker_id))
        return (yield from plan_updates(view, places, lost=broker_id))
    places = yield from places_where(view, is_to_be_removed)
    return (yield from plan_updates(view, places, removed=broker_id))


def plan_offline_directories(view: ControllerView, broker_id: int, offline: Collection[UUID]) -> Pieces[list[Any]]:
    """Process failed log directories of a broker; those that were reported before are skipped."""
    broker = view.image.brokers[broker_id]
    failed = {directory for directory in broker.directories if directory in offline}
    if not failed:
        return []

    def has_lost(partition: PartitionImage) -> bool:
        return broker_id in partition.replicas and directory_of(partition, broker_id) in failed

    places = yield from places_where(view, has_lost)
    records: list[Any] = yield from plan_updates(view, places, removed=broker_id)
    remaining = [directory for directory in broker.directories if directory not in failed]
    if remaining:
        # An empty list would mean no change; a broker without any directory stops by itself.
        records.append(_change(broker, log_dirs=remaining))
    return records


def plan_cordoned_directories(view: ControllerView, broker_id: int, cordoned: Collection[UUID] | None) -> list[Any]:
    """Store the log directories that take no new replicas (KIP-1066); None if the broker cannot report them."""
    broker = view.image.brokers[broker_id]
    if not can_cordon(view) or cordoned is None or set(cordoned) == set(broker.cordoned_directories):
        return []
    return [_change(broker, cordoned_log_dirs=list(cordoned))]


def can_cordon(view: ControllerView) -> bool:
    """Return True if the metadata version has cordoned log directories (KIP-1066)."""
    return view.image.features.get(METADATA_VERSION, 0) >= METADATA_VERSION_4_3_IV0


def _change(broker: BrokerRegistration, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, **changes)


def _has_in_sync(broker_id: int) -> Callable[[PartitionImage], bool]:
    return lambda partition: broker_id in partition.isr


def _is_eligible(broker_id: int) -> Callable[[PartitionImage], bool]:
    return lambda partition: broker_id in partition.isr or broker_id in partition.eligible_leader_replicas

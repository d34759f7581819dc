"""What happens to a broker and to its partitions when it is fenced, unfenced, shut down, forgotten, or loses a disk.

Which partitions are concerned is found by a pass over the image. The records of the partitions are what follows from
the one of the broker; when there are many, they are written in portions (broker_plan.py). A broker is fenced only when
it leads nothing any more, and leads only when it is unfenced, so that what a controller leaves undone the next one
finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any
from uuid import UUID

from kwire.chunks import Pieces
from kwire.cluster.controller.broker_plan import BrokerPlan, Concerns
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
    lost: int | None = None,
) -> list[PartitionChangeRecord]:
    """Records for partitions that a broker leaves or may lead.

    `removed` goes from the in-sync sets and leads nothing; `lost` may also have lost records, and is not eligible
    either.
    """
    gone = {removed, lost}

    def may_lead(broker: int) -> bool:
        return broker not in gone and view.is_active(broker)

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


def plan_fencing(plan: BrokerPlan, broker_id: int) -> Pieces[None]:
    """The broker is out of touch: it leads nothing and is in sync with nobody."""
    broker_epoch = plan.view.image.brokers[broker_id].broker_epoch
    yield from plan.sweep(_in_sync(broker_id), partial(plan_updates, removed=broker_id))
    broker = plan.view.image.brokers.get(broker_id)
    if broker is not None and broker.broker_epoch == broker_epoch:
        plan.records.append(_change(broker, fenced=YES))


def plan_unfencing(plan: BrokerPlan, broker_id: int) -> Pieces[None]:
    """The broker lives: it may lead what nobody leads."""
    plan.records.append(_change(plan.view.image.brokers[broker_id], fenced=NO))
    yield from plan.sweep(is_leaderless, plan_updates)


def plan_controlled_shutdown(plan: BrokerPlan, broker_id: int) -> Pieces[None]:
    """The broker wants to stop: others lead what it leads."""
    broker = plan.view.image.brokers[broker_id]
    if not broker.in_controlled_shutdown:
        # Before anything else: from then on no leader takes it back into an in-sync set.
        plan.records.append(_change(broker, in_controlled_shutdown=YES))
    yield from plan.sweep(_in_sync(broker_id), partial(plan_updates, removed=broker_id))


def plan_unregistration(plan: BrokerPlan, broker_id: int) -> Pieces[BrokerRegistration]:
    """Forget a broker for good; return its registration. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
    view = plan.view
    _registration(view, broker_id)
    is_known_good = _known_good(broker_id)
    check_size(1 + sum(is_known_good(place.partition) for place in view.places()))

    yield from plan.sweep(is_known_good, partial(plan_updates, removed=broker_id))
    broker = _registration(plan.view, broker_id)
    plan.records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch))
    return broker


def plan_new_incarnation(
    plan: BrokerPlan, broker_id: int, *, directories: Collection[UUID], was_clean: bool
) -> Pieces[None]:
    """The broker has started again: it is in sync with nobody yet.

    After an unclean end, as by a power cut, its logs may lack what it had acknowledged (KIP-966). After a clean one,
    partitions that nobody else has are as they were, and are left alone: there may be many of them. `directories` are
    those that it comes back with.
    """
    if plan.view.has_eligible_leaders and not was_clean:
        return plan.sweep(_known_good(broker_id), partial(plan_updates, lost=broker_id))

    def is_as_it_was(partition: PartitionImage) -> bool:
        is_alone = partition.replicas == (broker_id,)
        return was_clean and is_alone and is_online(directory_of(partition, broker_id), directories)

    return plan.sweep(
        lambda partition: broker_id in partition.isr and not is_as_it_was(partition),
        partial(plan_updates, removed=broker_id),
    )


def plan_offline_directories(plan: BrokerPlan, broker_id: int, offline: Collection[UUID]) -> Pieces[None]:
    """Log directories of a broker have failed; those that are known to have are passed over."""
    failed = {each for each in plan.view.image.brokers[broker_id].directories if each in offline}
    if not failed:
        return

    def has_lost(partition: PartitionImage) -> bool:
        return broker_id in partition.isr and directory_of(partition, broker_id) in failed

    yield from plan.sweep(has_lost, partial(plan_updates, removed=broker_id))
    broker = plan.view.image.brokers.get(broker_id)
    left = [] if broker is None else [each for each in broker.directories if each not in failed]
    if broker is not None and left:
        # An empty list would say that nothing changes; a broker without any directory ends by itself.
        plan.records.append(_change(broker, log_dirs=left))


def plan_cordoned_directories(view: ControllerView, broker_id: int, cordoned: Collection[UUID] | None) -> list[Any]:
    """Log directories of a broker take no new replicas from now on (KIP-1066); None: the broker does not know yet."""
    broker = view.image.brokers[broker_id]
    if view.image.features.get(METADATA_VERSION, 0) < METADATA_VERSION_4_3_IV0:
        return []  # KIP-1066 needs that level
    if cordoned is None or set(cordoned) == set(broker.cordoned_directories):
        return []
    return [_change(broker, cordoned_log_dirs=list(cordoned))]


def _registration(view: ControllerView, broker_id: int) -> BrokerRegistration:
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    return broker


def _change(broker: BrokerRegistration, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, **changes)


def is_leaderless(partition: PartitionImage) -> bool:
    """Return True if nobody leads."""
    return partition.leader == NO_LEADER


def _in_sync(broker_id: int) -> Concerns:
    return lambda partition: broker_id in partition.isr


def _known_good(broker_id: int) -> Concerns:
    return lambda partition: broker_id in partition.isr or broker_id in partition.eligible_leader_replicas

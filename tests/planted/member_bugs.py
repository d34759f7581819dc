"""Bugs in share groups, consumer groups and streams groups that seeds of the simulated cluster find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from kwire.coordinator.group import committing
from kwire.coordinator.group.consumer import commit_checks
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.heartbeats import Heartbeats
from kwire.coordinator.group.consumer.reconciliation import Reconciliation
from kwire.coordinator.group.streams import reconciliation as streams_reconciliation
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.error_codes import KafkaError
from kwire.server.sharing.acquiring import Acquisition
from kwire.server.sharing.in_flight import Change, InFlight
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.runs import NO_MEMBER, Run
from kwire.server.sharing.serving import ShareAcknowledgeService
from kwire.server.sharing.share_partition import FINAL_STATES_STORED, SharePartition
from kwire.server.sharing.states import RecordState
from tests.planted.bug import Catalogue, Plant, always, never, nothing

MEMBER_BUGS: Final = Catalogue()
_FOUND_BY: Final = "simulation/cluster.py"
STORED_AFTER_SECONDS: Final = 3.0


def _bug(breaks: str) -> Callable[[Plant], Plant]:
    return MEMBER_BUGS.bug(breaks, _FOUND_BY)


# --- share groups: owners of records


@_bug("A1")
def acquired_records_are_acquired_again(patch: pytest.MonkeyPatch) -> None:
    """A share fetch ignores the acquisition locks of other members."""

    def is_acquirable(run: Run) -> bool:
        return run.state in (RecordState.AVAILABLE, RecordState.ACQUIRED) and run.pending is None

    patch.setattr(Run, "is_acquirable", property(is_acquirable))


@_bug("A1")
def any_member_may_acknowledge(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement is accepted for a record that another member has acquired since."""
    check = SharePartition._check_owner

    def check_state(share: SharePartition, run: Run, member: str) -> None:
        check(share, run, member if run.member == NO_MEMBER else run.member)

    patch.setattr(SharePartition, "_check_owner", check_state)


@_bug("A1")
def a_fetch_acquires_before_its_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    """Late acknowledgements of a ShareFetch request apply to the records that the same request acquires."""

    async def applied(service: ShareAcknowledgeService, acknowledging: object) -> None:
        """Do not wait."""

    patch.setattr(ShareAcknowledgeService, "applied", applied)


# --- share groups: delivery counts


@_bug("A2")
def deliveries_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """The delivery count of a record stays the same when it is delivered again."""
    take = Acquisition._take

    def take_uncounted(acquisition: Acquisition, run: Run, *, is_new_range: bool) -> int:
        if run.count > 0:
            run.count -= 1
        return take(acquisition, run, is_new_range=is_new_range)

    patch.setattr(Acquisition, "_take", take_uncounted)


@_bug("A2")
def a_new_leader_forgets_delivery_counts(patch: pytest.MonkeyPatch) -> None:
    """The delivery count of a released record begins again after a change of the leader."""
    load = SharePartition.load

    def load_without(share: SharePartition, batches: Iterable[Any]) -> Any:
        return load(
            share,
            [
                (first, last, state, count if state in FINAL_STATES_STORED else 0)
                for first, last, state, count in batches
            ],
        )

    patch.setattr(SharePartition, "load", load_without)


# --- share groups: stored states


@_bug("A3")
def acknowledgements_are_answered_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    """The response to an acknowledgement does not wait for the persister, which gets it some seconds later."""
    store = LedSharePartition._store

    async def store_later(led: LedSharePartition, change: Change) -> None:
        async def store_in_vain() -> None:
            await asyncio.sleep(STORED_AFTER_SECONDS)
            try:
                await store(led, change)
            except KafkaError:
                """The members do not notice."""

        led._run(store_in_vain)

    patch.setattr(LedSharePartition, "_store", store_later)


@_bug("A4")
def the_start_offset_passes_available_records(patch: pytest.MonkeyPatch) -> None:
    """The start offset moves over records that are available again."""

    def advance_start(in_flight: InFlight) -> bool:
        count = 0
        for run in in_flight.runs:
            if run.state == RecordState.ACQUIRED or run.pending is not None:
                break
            count += 1
            in_flight._count(run, -1)
        in_flight.runs.drop_first(count)
        return count > 0

    patch.setattr(InFlight, "advance_start", advance_start)


# --- consumer groups


@_bug("G1")
def a_partition_is_assigned_before_it_is_revoked(patch: pytest.MonkeyPatch) -> None:
    """A member receives the partitions of its target at once, although their former owners still have them."""

    def own(group: ConsumerGroup, partitions: Any, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            group._owner_epochs.setdefault(topic_id, {}).update(dict.fromkeys(indexes, epoch))

    patch.setattr(Reconciliation, "_is_free", always)
    patch.setattr(ConsumerGroup, "_own", own)  # it would reject the owner
    patch.setattr(ConsumerGroup, "check_invariants", nothing)


@_bug("G2")
def a_heartbeat_returns_the_epoch_before(patch: pytest.MonkeyPatch) -> None:
    """The response to a member without a new epoch contains its previous epoch."""
    join_or_stay = Heartbeats._join_or_stay

    def stay_before(heartbeats: Heartbeats, request: Any, client: Any) -> Any:
        write = join_or_stay(heartbeats, request, client)
        if write.answer.member_epoch == request.member_epoch > 1:
            write.answer.member_epoch -= 1
        return write

    patch.setattr(Heartbeats, "_join_or_stay", stay_before)


@_bug("G3")
def commits_with_an_older_member_epoch_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """A member commits with an older epoch for a partition that it has given up."""
    check = commit_checks.check_commit

    def check_member(group: Any, member_id: str, instance_id: str | None, epoch: int, **more: Any) -> None:
        check(group, member_id, instance_id, epoch, **more)

    patch.setattr(committing, "check_commit", check_member)


# --- streams groups


@_bug("G8")
def an_active_task_is_assigned_twice(patch: pytest.MonkeyPatch) -> None:
    """A member receives the active tasks of its target at once, although their former owners still have them."""
    patch.setattr(streams_reconciliation.Reconciliation, "_is_active_occupied", never)
    patch.setattr(StreamsGroup, "check_invariants", nothing)

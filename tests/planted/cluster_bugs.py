"""Bugs in replication, transactions and groups that seeds of the simulated cluster find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from kwire.cluster.controller.plans import broker_changes, isr_changes, partition_changes, registration
from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.in_sync import Followers, Peers
from kwire.cluster.partitions.partition import ACKS_ALL, Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.coordinator import transaction_coordinator
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.coordinator.shard import Shard
from kwire.coordinator.transaction import adding, ending, initialising
from kwire.coordinator.transaction.transaction import CLASSIC, Transaction
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_state import ProducerState
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.messages.fetch import AbortedTransaction as NamedTransaction
from kwire.server.fetching import aborted_lists, reading
from kwire.server.fetching.reading import Reading
from tests.planted.bug import Catalogue, Plant, always, nothing
from tests.planted.group_bugs import GROUP_BUGS

CLUSTER_BUGS: Final = Catalogue()


def _bug(breaks: str) -> Callable[[Plant], Plant]:
    return CLUSTER_BUGS.bug(breaks, "simulation/cluster.py")


# --- commits


@_bug("R4")
def the_high_watermark_moves_below_min_insync(patch: pytest.MonkeyPatch) -> None:
    """A leader commits with fewer in-sync replicas than min.insync.replicas requires."""
    patch.setattr(Partition, "has_enough_in_sync", property(always))


@_bug("R3")
def a_proposed_shrink_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    """The high watermark no longer waits for a lagging follower before the controller has removed it from the ISR."""

    def note(followers: Followers) -> None:
        proposed = None if followers.proposal is None else followers.proposal.isr
        followers._maximal = frozenset(followers._image.isr if proposed is None else proposed)

    patch.setattr(Followers, "_note_maximal", note)


@_bug("R3")
def the_high_watermark_goes_by_the_in_sync_set_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark ignores a replica proposed for the in-sync set, although the controller may have added it."""

    def note(followers: Followers) -> None:
        followers._maximal = frozenset(followers._image.isr)

    patch.setattr(Followers, "_note_maximal", note)
    patch.setattr(Followers, "_is_about_to_join", lambda *_: False)


@_bug("R4")
def followers_count_as_up_to_date_in_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader assumes that in-sync followers have all its records before any of them has fetched."""
    make = Followers.__init__

    def trusting(followers: Followers, image: PartitionImage, peers: Peers, *, epoch_start: int) -> None:
        make(followers, image, peers, epoch_start=epoch_start)
        for broker in image.isr:
            if followers.is_follower(broker):
                followers.follower(broker).log_end_offset = epoch_start

    patch.setattr(Followers, "__init__", trusting)


@_bug("R14")
def acknowledged_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """With acks=all, the response is sent once the leader has the records."""

    def satisfies_acks(partition: Partition, last_offset: int, acks: int) -> bool:
        return partition.committable_end > last_offset

    patch.setattr(Partition, "satisfies_acks", satisfies_acks)


@_bug("R7")
def readers_see_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A consumer's fetch returns records up to the leader's log end offset."""
    read = Reading._read_partition

    def eager(fetch: Reading, key: Any, partition: Partition, asked: Any, remaining: int) -> Any:
        if fetch.replica_id >= 0:
            return read(fetch, key, partition, asked, remaining)
        before, partition.high_watermark = partition.high_watermark, partition.log.log_end_offset
        try:
            return read(fetch, key, partition, asked, remaining)
        finally:
            partition.high_watermark = before

    patch.setattr(Reading, "_read_partition", eager)


@_bug("R17")
def too_few_in_sync_is_found_out_after_the_append(patch: pytest.MonkeyPatch) -> None:
    """NOT_ENOUGH_REPLICAS is returned after the records were appended."""
    append, check = Partition.append, Partition._check_insync_replicas

    def late(partition: Partition, batches: Any, acks: int, *more: Any, **named: Any) -> Any:
        result = append(partition, batches, acks, *more, **named)
        if acks == ACKS_ALL:
            check(partition)
        return result

    patch.setattr(Partition, "_check_insync_replicas", nothing)
    patch.setattr(Partition, "append", late)


# --- log reconciliation


@_bug("R8")
def a_follower_cuts_back_to_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """On a change of leader, a follower truncates to its own high watermark, as before KIP-101."""
    follow = Partition._follow

    def cut(partition: Partition) -> None:
        follow(partition)
        if partition.high_watermark < partition.log.log_end_offset:
            partition.truncate_to_leaders_end(partition.high_watermark)

    patch.setattr(Partition, "_follow", cut)


@_bug("R8")
def leaders_do_not_compare_epochs(patch: pytest.MonkeyPatch) -> None:
    """The leader assumes that a fetch at a valid offset comes from a log equal to its own."""
    patch.setattr(Reading, "_diverges", lambda *_: False)


# --- in-sync sets


@_bug("R9")
def any_follower_joins(patch: pytest.MonkeyPatch) -> None:
    """The leader proposes every follower that fetches for the in-sync set, whatever its lag is."""

    def propose_expand(followers: Followers, broker_id: int, high_watermark: int) -> bool:
        if followers.proposal is not None or broker_id in followers._image.isr:
            return False
        if not followers._peers.can_join_isr(broker_id, followers.follower(broker_id).broker_epoch):
            return False
        followers._propose((*followers._image.isr, broker_id))
        return True

    patch.setattr(Followers, "propose_expand", propose_expand)


@_bug("R10")
def an_in_sync_set_is_taken_for_any_state(patch: pytest.MonkeyPatch) -> None:
    """The controller does not compare partition epochs: AlterPartition overwrites newer changes."""
    why_not = isr_changes._rejection_code

    def late(view: Any, leader: int, partition: PartitionImage, requested: Any, members: Any) -> Any:
        newer = max(requested.partition_epoch, partition.partition_epoch)
        return why_not(view, leader, partition, replace(requested, partition_epoch=newer), members)

    patch.setattr(isr_changes, "_rejection_code", late)


@_bug("R11")
def a_fenced_broker_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    """When a broker is fenced, the leaders and in-sync sets of its partitions stay unchanged."""
    patch.setattr(broker_changes, "_has_in_sync", lambda _: lambda _: False)


@_bug("R12")
def an_unclean_end_is_taken_for_a_clean_one(patch: pytest.MonkeyPatch) -> None:
    """A broker that restarts after a power cut stays an eligible leader."""
    plan = broker_changes.plan_new_incarnation

    def trusting(view: Any, broker_id: int, *, directories: Any, was_clean: bool) -> Any:
        return plan(view, broker_id, directories=directories, was_clean=True)

    patch.setattr(registration, "plan_new_incarnation", trusting)


@_bug("R13")
def eligible_leaders_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Replicas stay eligible leaders after enough replicas are in sync again."""

    def eligible(view: Any, place: Any, wanted: Any, lost: frozenset[int]) -> tuple[int, ...]:
        old = place.partition
        before = set(old.eligible_leader_replicas) | set(old.isr)
        return tuple(sorted((before & set(wanted.replicas)) - set(wanted.isr) - lost))

    patch.setattr(partition_changes, "_eligible", eligible)


# --- producers and transactions


@_bug("T1")
def a_new_leader_forgets_producers(patch: pytest.MonkeyPatch) -> None:
    """A new leader has no last batches of producers, so that it cannot detect duplicates."""
    lead = Partition._lead

    def forgetful(partition: Partition, image: PartitionImage) -> None:
        for entry in partition.log.producers.entries.values():
            entry.batches = []
        lead(partition, image)

    patch.setattr(Partition, "_lead", forgetful)


@_bug("T3")
def aborted_transactions_begin_one_too_late(patch: pytest.MonkeyPatch) -> None:
    """The list of aborted transactions excludes the first record of each one."""
    aborted_transactions = PartitionLog.aborted_transactions

    def later(log: PartitionLog, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        found = aborted_transactions(log, start_offset, end_offset)
        return [each._replace(first_offset=each.first_offset + 1) for each in found]

    patch.setattr(PartitionLog, "aborted_transactions", later)


@_bug("T3")
def open_transactions_are_seen(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset equals the high watermark."""
    patch.setattr(PartitionLog, "last_stable_offset", lambda log, high_watermark: high_watermark)


@_bug("T7")
def an_abort_leaves_the_transaction_open(patch: pytest.MonkeyPatch) -> None:
    """An abort marker is stored, but the transaction stays open."""
    update_marker = ProducerState.update_marker

    def half(producers: ProducerState, header: Any, marker: Any, offset: int) -> Any:
        first = producers._ongoing.get(header.producer_id)
        completed = update_marker(producers, header, marker, offset)
        if first is not None and not marker.is_commit:
            producers._ongoing[header.producer_id] = first
            producers.entries[header.producer_id].current_transaction_first_offset = first
        return completed

    patch.setattr(ProducerState, "update_marker", half)


@_bug("T5")
def transactions_share_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """EndTxn does not increase the epoch: late batches count for the next transaction."""
    decided = ending._decided

    def same(transaction: Any, **named: Any) -> Any:
        last = transaction.last_producer_epoch
        is_raised = last >= 0 and transaction.producer_epoch == last + 1
        return decided(replace(transaction, producer_epoch=last) if is_raised else transaction, **named)

    patch.setattr(ending, "_decided", same)


@_bug("T7")
def an_added_partition_replaces_those_before(patch: pytest.MonkeyPatch) -> None:
    """AddPartitionsToTxn of a classic client: only the partitions added last get a marker."""
    with_partitions = adding.with_partitions

    def replacing(transaction: Transaction, partitions: Any, **named: Any) -> Transaction:
        after = with_partitions(transaction, partitions, **named)
        is_kept = after is transaction or named["client_version"] != CLASSIC
        return after if is_kept else replace(after, partitions=frozenset(partitions))

    patch.setattr(transaction_coordinator, "with_partitions", replacing)
    patch.setattr(transaction_coordinator, "check_step", nothing)  # it would reject the step


@_bug("T2")
def init_producer_id_after_an_abort_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """InitProducerId of a classic client after an abort keeps the epoch: old batches can still be written."""
    next_epoch = initialising._next_epoch

    def same(transaction: Transaction, expected: Any) -> tuple[int, int]:
        if expected is not None and expected.epoch == transaction.producer_epoch:
            return transaction.producer_epoch, transaction.last_producer_epoch
        return next_epoch(transaction, expected)

    patch.setattr(initialising, "_next_epoch", same)


# --- groups


@_bug("G4")
def a_new_coordinator_loads_nothing(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes a partition over starts with no offsets and no groups."""

    async def load(keeper: Any, shard: Shard[Any, Any]) -> None:
        shard.activate()

    patch.setattr(CoordinatorRuntime, "_load", load)


# --- responses about partitions


@_bug("R15")
def a_new_leader_says_that_its_high_watermark_is_the_end(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets does not wait until the high watermark reaches the start of the epoch (KIP-207)."""
    patch.setattr(Partition, "check_end_known", nothing)


@_bug("T3")
def aborted_transactions_are_listed_up_to_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    """A small fetch lists every aborted transaction of the partition after its offset."""

    def aborted(partition: Partition, offset: int, batches: bytes) -> list[NamedTransaction]:
        found = partition.log.aborted_transactions(offset, partition.end_offset(1)) if batches else []
        return [NamedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found]

    for module in (aborted_lists, reading):
        patch.setattr(module, "aborted_in", aborted)


@_bug("M1")
def followers_keep_every_marker(patch: pytest.MonkeyPatch) -> None:
    """Only a read_committed fetch removes replicated markers from memory, and followers serve no such fetch."""
    update = ProducerState.update_high_watermark
    patch.setattr(ProducerState, "update_high_watermark", nothing)
    patch.setattr(Partition, "end_offset", _pruning_end_offset(update))


def _pruning_end_offset(update: Callable[[ProducerState, int], None]) -> Callable[[Partition, int], int]:
    end_offset = Partition.end_offset

    def pruning(partition: Partition, isolation_level: int) -> int:
        update(partition.log.producers, partition.high_watermark)
        return end_offset(partition, isolation_level)

    return pruning


@_bug("R19")
def only_leaders_describe_producers(patch: pytest.MonkeyPatch) -> None:
    """DescribeProducers on a follower returns NOT_LEADER_OR_FOLLOWER."""
    find = Partitions.find

    def led(partitions: Partitions, topic: str, index: int, **_: bool) -> Partition:
        return find(partitions, topic, index)

    patch.setattr(Partitions, "find", led)


# --- logs that restart at a new offset


@_bug("Q13")
def a_follower_takes_no_batch_that_begins_before_its_log(patch: pytest.MonkeyPatch) -> None:
    """A follower whose log must restart at the leader's log start never catches up if that offset is inside a batch."""
    patch.setattr(Partition, "_begin_with_whole_batch", nothing)


# --- group changes


@_bug("G7")
def a_replaced_static_member_owes_its_sync_to_the_cluster(patch: pytest.MonkeyPatch) -> None:
    """The id of a static member that restarted between JoinGroup and SyncGroup stays in the set of pending syncs."""
    GROUP_BUGS.bugs["a replaced static member owes its sync"].plant(patch)

"""Bugs in transactions: coordinator, transaction verifier, markers, and pending offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from kwire.cluster.partitions.partition import Partition
from kwire.coordinator import transaction_coordinator
from kwire.coordinator.group.offsets import Offsets
from kwire.coordinator.transaction import adding, completion, ending, initialising, machine
from kwire.coordinator.transaction.machine import TransactionMachine
from kwire.coordinator.transaction.transaction import Transaction
from kwire.coordinator.transaction.verifier import TransactionVerifier
from kwire.log.producer_state import ProducerState
from kwire.protocol.records import NO_PRODUCER_ID
from tests.planted.bug import Catalogue, always, nothing

TRANSACTION_BUGS: Final = Catalogue()
_bug = TRANSACTION_BUGS.bug


def _script(name: str) -> str:
    return f"coordinator/test_scripts.py::test_script[transaction_{name}]"


@_bug(
    "T6",
    _script("a_batch_of_a_classic_client_must_have_been_added"),
    _script("a_batch_that_begins_a_transaction_adds_its_partition"),
    "coordinator/test_transaction_verifier.py::test_an_open_transaction_needs_no_verification",
)
def every_batch_passes_the_verifier(patch: pytest.MonkeyPatch) -> None:
    """Batches of a transaction are written without a request to its coordinator."""
    patch.setattr(TransactionVerifier, "can_write", always)


@_bug("T6", "coordinator/test_transaction_verifier.py::test_a_marker_during_verification_rejects_waiting_batches")
def a_marker_does_not_make_a_wait_void(patch: pytest.MonkeyPatch) -> None:
    """A batch that waited for verification while its transaction ended is written, and stays open forever."""
    append_marker = Partition.append_marker

    def append_only(partition: Partition, *arguments: Any, **named: Any) -> Any:
        waiting, partition.verifications = partition.verifications, {}
        try:
            return append_marker(partition, *arguments, **named)
        finally:
            partition.verifications = waiting

    patch.setattr(Partition, "append_marker", append_only)


@_bug(
    "T5",
    _script("each_end_raises_the_epoch"),
)
def an_end_leaves_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """The next transaction has the same epoch as the previous one, so that a late batch becomes part of it."""
    prepared_end = ending.prepared_end

    def with_same_epoch(transaction: Transaction | None, *arguments: Any, **named: Any) -> Transaction:
        after = prepared_end(transaction, *arguments, **named)
        return after if transaction is None else replace(after, producer_epoch=transaction.producer_epoch)

    patch.setattr(transaction_coordinator, "prepared_end", with_same_epoch)


@_bug(
    "T7",
    _script("a_transaction_that_takes_too_long_is_aborted"),
)
def time_never_runs_out(patch: pytest.MonkeyPatch) -> None:
    """A transaction whose client is gone stays open forever."""
    patch.setattr(TransactionMachine, "_schedule_timeout_check", nothing)


@_bug("T9", _script("a_transaction_that_takes_too_long_is_aborted"))
def a_timeout_leaves_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A client whose transaction timed out is not fenced."""
    fenced = ending.fenced

    def not_fenced(transaction: Transaction, **named: Any) -> Transaction:
        return replace(fenced(transaction, **named), producer_epoch=transaction.producer_epoch)

    patch.setattr(machine, "fenced", not_fenced)


@_bug(
    "T9",
    _script("each_init_raises_the_epoch_and_fences_the_one_before"),
)
def a_new_instance_leaves_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new instance of a transactional id gets the epoch of the old one."""
    patch.setattr(initialising, "_next_epoch", lambda transaction, expected: (transaction.producer_epoch, -1))


@_bug("T9", _script("each_init_raises_the_epoch_and_fences_the_one_before"))
def an_old_instance_may_add(patch: pytest.MonkeyPatch) -> None:
    """AddPartitionsToTxn checks only the producer id and not the epoch."""
    check = adding.check_producer

    def check_id(transaction: Transaction | None, producer_id: int, epoch: int) -> Transaction:
        return check(transaction, producer_id, epoch if transaction is None else transaction.producer_epoch)

    patch.setattr(transaction_coordinator, "check_producer", check_id)


@_bug("T8", _script("a_decision_goes_out_when_it_is_durable"))
def a_decision_goes_out_at_once(patch: pytest.MonkeyPatch) -> None:
    """Markers are written before the decision is durable."""
    decision_write = TransactionMachine.decision_write

    def decide(machine: TransactionMachine, decision: Transaction, answer: Any) -> Any:
        write = decision_write(machine, decision, answer)
        write.outcome = None
        machine._send_markers(decision)
        return write

    patch.setattr(TransactionMachine, "decision_write", decide)


@_bug(
    "T8",
    _script("an_end_while_one_is_under_way"),
    "coordinator/test_transaction_rules.py::test_end_txn_result_for_each_state_and_epoch",
)
def an_end_may_be_turned(patch: pytest.MonkeyPatch) -> None:
    """A repeated EndTxn returns success even if the earlier decision was the opposite."""
    patch.setattr(ending, "_repeated", lambda transaction, *, is_commit: transaction)


@_bug("T7", _script("a_partition_that_takes_no_marker_is_tried_again"))
def a_rejected_marker_is_given_up(patch: pytest.MonkeyPatch) -> None:
    """A partition that rejects a marker once never gets it."""
    apply_results = completion.PendingMarkers._apply_results

    def give_up(markers: completion.PendingMarkers, ending: Any, outcomes: Any) -> None:
        apply_results(markers, ending, outcomes)
        ending.remaining -= set(outcomes)

    patch.setattr(completion.PendingMarkers, "_apply_results", give_up)


@_bug(
    "T10",
    _script("a_marker_of_an_older_coordinator_is_rejected"),
)
def any_coordinators_marker_is_taken(patch: pytest.MonkeyPatch) -> None:
    """A marker of a replaced coordinator ends a transaction."""
    patch.setattr(ProducerState, "check_marker", nothing)


@_bug(
    "G5",
    _script("offsets_count_when_their_transaction_commits"),
    _script("offsets_are_dropped_when_their_transaction_aborts"),
)
def pending_offsets_count_at_once(patch: pytest.MonkeyPatch) -> None:
    """Offsets of an open transaction are committed before its end."""
    replay = Offsets.replay

    def replay_all(offsets: Offsets, key: Any, value: Any, offset: int, producer_id: int) -> None:
        replay(offsets, key, value, offset, NO_PRODUCER_ID)

    patch.setattr(Offsets, "replay", replay_all)

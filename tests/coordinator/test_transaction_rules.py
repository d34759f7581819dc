"""Transaction rules as functions: invalid steps, the table of transaction ends, and filters of lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwire.coordinator.transaction.adding import check_producer
from kwire.coordinator.transaction.ending import (
    completed,
    fenced,
    fencing_needs_producer_id,
    needs_next_producer_id,
    prepared_end,
    prepared_end_classic,
)
from kwire.coordinator.transaction.initialising import Producer, check_can_initialise, initialised, needs_producer_id
from kwire.coordinator.transaction.listing import KNOWN_STATES, ListingFilter
from kwire.coordinator.transaction.memory import TransactionMemory
from kwire.coordinator.transaction.states import TransactionState, can_follow
from kwire.coordinator.transaction.transaction import EPOCH_MAX, Transaction, check_step
from kwire.protocol.error_codes import ErrorCode, KafkaError

S = TransactionState
HELD = frozenset({("t", 0)})
OPEN = (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)


def transaction(state: TransactionState, **more: Any) -> Transaction:
    given: dict[str, Any] = {
        "transactional_id": "x",
        "producer_id": 5,
        "previous_producer_id": 5,
        "producer_epoch": 7,
        "timeout_ms": 1000,
        "state": state,
        "partitions": HELD if state in OPEN else frozenset(),
        "start_ms": 100,
        "last_update_ms": 100,
    }
    return Transaction(**(given | more))


def code_of(call: Any) -> ErrorCode | TransactionState:
    """Return the state or the error code of a rule."""
    try:
        found: Transaction = call()
    except KafkaError as error:
        return error.code
    return found.state


# --- steps

STEPS = {
    (S.EMPTY, S.EMPTY),
    (S.EMPTY, S.ONGOING),
    (S.EMPTY, S.PREPARE_ABORT),
    (S.ONGOING, S.ONGOING),
    (S.ONGOING, S.PREPARE_COMMIT),
    (S.ONGOING, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
    (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    *((done, after) for done in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT) for after in (S.EMPTY, S.ONGOING)),
    *((done, S.PREPARE_ABORT) for done in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT)),
}
STORED = [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]


@pytest.mark.parametrize("before", STORED)
@pytest.mark.parametrize("after", STORED)
def test_only_listed_state_transitions_are_allowed(before: TransactionState, after: TransactionState) -> None:
    assert can_follow(before, after) is ((before, after) in STEPS)
    first = transaction(before, partitions=frozenset())
    second = transaction(after, partitions=frozenset())
    if (before, after) in STEPS:
        check_step(first, second)
    else:
        with pytest.raises(AssertionError, match="cannot follow"):
            check_step(first, second)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, transaction(S.ONGOING), "begins as"),
        (None, transaction(S.EMPTY, producer_id=-1), "has no producer"),
        (None, transaction(S.EMPTY, producer_epoch=-1), "has no epoch"),
        (None, transaction(S.EMPTY, producer_epoch=EPOCH_MAX + 1), "has no epoch"),
        (transaction(S.EMPTY), transaction(S.EMPTY, producer_epoch=6), "goes back"),
        (transaction(S.EMPTY), transaction(S.EMPTY, producer_id=6), "has an epoch already"),
        (transaction(S.EMPTY), transaction(S.EMPTY, previous_producer_id=6), "does not name the producer"),
        (transaction(S.ONGOING), transaction(S.ONGOING, partitions=frozenset()), "has lost a partition"),
        (transaction(S.ONGOING), transaction(S.PREPARE_COMMIT, partitions=frozenset()), "has lost a partition"),
        (transaction(S.PREPARE_COMMIT), transaction(S.COMPLETE_COMMIT, partitions=HELD), "has partitions"),
    ],
)
def test_invalid_transaction_changes_fail(before: Transaction | None, after: Transaction, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_step(before, after)


# --- ends

FENCED, INVALID, AGAIN = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS
ENDS = {
    # state: (abort with the last epoch, abort with the current one, commit with the last, commit with the current)
    S.EMPTY: (FENCED, S.PREPARE_ABORT, FENCED, INVALID),
    S.ONGOING: (FENCED, S.PREPARE_ABORT, FENCED, S.PREPARE_COMMIT),
    S.PREPARE_COMMIT: (INVALID, AGAIN, AGAIN, AGAIN),
    S.PREPARE_ABORT: (AGAIN, AGAIN, INVALID, AGAIN),
    S.COMPLETE_COMMIT: (INVALID, S.PREPARE_ABORT, S.COMPLETE_COMMIT, INVALID),
    S.COMPLETE_ABORT: (S.COMPLETE_ABORT, S.PREPARE_ABORT, INVALID, INVALID),
}
CLASSIC_ENDS = {
    # state: (abort, commit)
    S.EMPTY: (INVALID, INVALID),
    S.ONGOING: (S.PREPARE_ABORT, S.PREPARE_COMMIT),
    S.PREPARE_COMMIT: (INVALID, AGAIN),
    S.PREPARE_ABORT: (AGAIN, INVALID),
    S.COMPLETE_COMMIT: (INVALID, S.COMPLETE_COMMIT),
    S.COMPLETE_ABORT: (S.COMPLETE_ABORT, INVALID),
}


@pytest.mark.parametrize("state", ENDS)
def test_end_txn_result_for_each_state_and_epoch(state: TransactionState) -> None:
    found = tuple(
        code_of(
            lambda epoch=epoch, commit=commit: prepared_end(transaction(state), 5, epoch, is_commit=commit, now_ms=200)
        )
        for commit in (False, True)
        for epoch in (6, 7)
    )
    assert found == ENDS[state]


@pytest.mark.parametrize("state", ENDS)
@pytest.mark.parametrize("epoch", [5, 8, -1])
@pytest.mark.parametrize("is_commit", [True, False])
def test_other_epochs_are_fenced(state: TransactionState, epoch: int, is_commit: bool) -> None:
    assert code_of(lambda: prepared_end(transaction(state), 5, epoch, is_commit=is_commit, now_ms=200)) is FENCED


@pytest.mark.parametrize("state", CLASSIC_ENDS)
def test_classic_end_txn_result_for_each_state_and_epoch(state: TransactionState) -> None:
    found = tuple(
        code_of(lambda commit=commit: prepared_end_classic(transaction(state), 5, 7, is_commit=commit, now_ms=200))
        for commit in (False, True)
    )
    assert found == CLASSIC_ENDS[state]
    for epoch in (6, 8):
        assert (
            code_of(lambda e=epoch: prepared_end_classic(transaction(state), 5, e, is_commit=True, now_ms=200))
            is FENCED
        )


@pytest.mark.parametrize("state", [S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_ending_and_completing_a_transaction_are_valid_transitions(state: TransactionState) -> None:
    before = transaction(state)
    after = prepared_end(before, 5, 7, is_commit=False, now_ms=200)
    check_step(before, after)
    assert (after.producer_epoch, after.last_producer_epoch, after.partitions) == (8, 7, before.partitions)
    assert after.start_ms == (100 if state is S.ONGOING else 200)
    done = completed(after, now_ms=300)
    check_step(after, done)
    assert (done.producer_id, done.producer_epoch, done.state) == (5, 8, S.COMPLETE_ABORT)


def test_ending_with_the_last_epoch_assigns_a_new_producer_id() -> None:
    before = transaction(S.ONGOING, producer_epoch=EPOCH_MAX - 1)
    assert needs_next_producer_id(before)
    assert not needs_next_producer_id(transaction(S.ONGOING))
    assert not needs_next_producer_id(transaction(S.PREPARE_COMMIT, producer_epoch=EPOCH_MAX))
    after = prepared_end(before, 5, EPOCH_MAX - 1, is_commit=True, next_producer_id=9, now_ms=200)
    check_step(before, after)
    assert (after.producer_id, after.producer_epoch, after.next_producer_id) == (5, EPOCH_MAX, 9)
    assert code_of(lambda: prepared_end(after, 5, EPOCH_MAX - 1, is_commit=True, now_ms=200)) is AGAIN
    assert code_of(lambda: prepared_end(after, 9, 0, is_commit=False, now_ms=200)) is AGAIN
    assert code_of(lambda: prepared_end(after, 5, EPOCH_MAX, is_commit=False, now_ms=200)) is FENCED
    done = completed(after, now_ms=300)
    check_step(after, done)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (9, 0, 5)
    assert prepared_end(done, 5, EPOCH_MAX - 1, is_commit=True, now_ms=400) is done
    for producer, epoch in ((5, EPOCH_MAX - 2), (5, EPOCH_MAX), (6, EPOCH_MAX - 1)):
        found = code_of(lambda p=producer, e=epoch: prepared_end(done, p, e, is_commit=True, now_ms=400))
        assert found is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_is_ended_by_its_own_producer_only() -> None:
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code_of(lambda: prepared_end(None, 5, 7, is_commit=True, now_ms=1)) is mapping
    assert code_of(lambda: prepared_end_classic(None, 5, 7, is_commit=True, now_ms=1)) is mapping
    assert code_of(lambda: prepared_end(transaction(S.ONGOING), 6, 7, is_commit=True, now_ms=1)) is mapping
    assert code_of(lambda: prepared_end_classic(transaction(S.ONGOING), 6, 7, is_commit=True, now_ms=1)) is mapping


@pytest.mark.parametrize("version", [0, 2])
def test_fencing_raises_the_epoch(version: int) -> None:
    before = transaction(S.ONGOING)
    after = fenced(before, version=version, now_ms=200)
    check_step(before, after)
    assert (after.state, after.producer_epoch) == (S.PREPARE_ABORT, 8)
    assert code_of(lambda: prepared_end_classic(after, 5, 7, is_commit=True, now_ms=200)) is FENCED


def test_fencing_with_the_last_epoch_takes_a_new_producer_id() -> None:
    before = transaction(S.ONGOING, producer_epoch=EPOCH_MAX - 1)
    assert fencing_needs_producer_id(before, 2)
    assert not fencing_needs_producer_id(before, 0)
    prepared = fenced(before, version=2, next_producer_id=9, now_ms=200)
    check_step(before, prepared)
    assert (prepared.producer_id, prepared.producer_epoch) == (5, EPOCH_MAX)
    after = completed(prepared, now_ms=201)
    check_step(prepared, after)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (9, 0, 5)
    repeated = prepared_end(after, 5, EPOCH_MAX - 1, is_commit=False, now_ms=202)
    assert repeated is after


# --- beginnings

INITS = [
    # (expected, transaction's changes) -> (producer id, epoch) or a rejection
    (None, {}, (5, 8)),
    ((5, 7), {}, (5, 8)),
    ((5, 6), {"last_producer_epoch": 6}, (5, 7)),
    ((5, 6), {}, FENCED),
    ((5, 8), {}, FENCED),
    ((4, 7), {}, FENCED),
    ((4, EPOCH_MAX - 1), {"previous_producer_id": 4, "last_producer_epoch": EPOCH_MAX - 1}, (5, 7)),
    ((4, 7), {"previous_producer_id": 4, "last_producer_epoch": 7}, FENCED),
    (None, {"producer_epoch": EPOCH_MAX - 1}, (9, 0)),
    ((5, EPOCH_MAX - 1), {"producer_epoch": EPOCH_MAX - 1}, (9, 0)),
    (None, {"producer_epoch": EPOCH_MAX}, (9, 0)),
    (None, {"producer_epoch": EPOCH_MAX - 2}, (5, EPOCH_MAX - 1)),
]


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize(("expected", "changes", "outcome"), INITS)
def test_init_producer_id_sets_the_next_epoch(
    state: TransactionState, expected: tuple[int, int] | None, changes: dict[str, int], outcome: Any
) -> None:
    before = transaction(state, **changes)
    producer = None if expected is None else Producer(*expected)
    try:
        check_can_initialise(before, producer)
        new_id = 9 if needs_producer_id(before, producer, 2) else -1
        after = initialised(before, producer, new_producer_id=new_id, timeout_ms=50, now_ms=200)
    except KafkaError as error:
        assert error.code is outcome
        return
    check_step(before, after)
    assert (after.producer_id, after.producer_epoch) == outcome
    assert (after.state, after.timeout_ms, after.start_ms, after.partitions) == (S.EMPTY, 50, -1, frozenset())


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("producer", [Producer(5, 7), Producer(6, 0), Producer(5, 3)])
def test_no_transaction_begins_while_one_ends(state: TransactionState, producer: Producer) -> None:
    """Also for the next producer id, which the client already uses if the epochs were exhausted."""
    ending = transaction(state)
    assert code_of(lambda: check_producer(ending, *producer)) is AGAIN
    with pytest.raises(KafkaError) as rejection:
        check_can_initialise(ending, producer)
    assert rejection.value.code is AGAIN


# --- lists and bounds


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (ListingFilter(), True),
        (ListingFilter(states=frozenset({"Ongoing", "Empty"})), True),
        (ListingFilter(states=frozenset({"Empty"})), False),
        (ListingFilter(producer_ids=frozenset({5})), True),
        (ListingFilter(producer_ids=frozenset({6})), False),
        (ListingFilter(longer_than_ms=0), True),
        (ListingFilter(longer_than_ms=899), True),
        (ListingFilter(longer_than_ms=900), False),
        (ListingFilter(states=frozenset({"Ongoing"}), producer_ids=frozenset({6})), False),
    ],
)
def test_listing_filters_select_transactions(wanted: ListingFilter, passes: bool) -> None:
    assert wanted.matches(transaction(S.ONGOING), 1000) is passes


def test_all_stored_states_have_names() -> None:
    assert len(KNOWN_STATES) == len(S)


def test_a_removed_transaction_releases_its_memory() -> None:
    memory = TransactionMemory(1000)
    first = transaction(S.EMPTY)
    second = replace(first, partitions=frozenset({("t", 0), ("t", 1)}))
    room = []
    for before, after in ((None, first), (first, second), (second, None)):
        memory.count(before, after)
        room.append(memory.has_room)
    assert room == [True, False, True]

"""Transaction gate: order of waiting batches, events that end a wait, and error codes for producers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.partitions.partition import Partition
from kwire.coordinator.answers import Answer
from kwire.coordinator.markers import Marker, append_marker
from kwire.coordinator.transaction.config import TransactionConfig
from kwire.coordinator.transaction.gate import Entry, TransactionClaim, TransactionGate
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import CLASSIC, EPOCH_PER_TRANSACTION, TopicPartition
from kwire.log.refused_batches import PRODUCERS_MAX
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.coordinator.transaction_script import settle
from tests.coordinator.world import no_group_commit, topic_image
from tests.log.support import NOW_MS, batch, open_at
from tests.support.metadata import Alone
from tests.virtual_loop import VirtualClock, VirtualLoop, virtual_loop

FIRST, SECOND = Producer(1, 0), Producer(2, 0)
Codes = Mapping[TopicPartition, ErrorCode]
Outcome = KafkaError | Codes | None


class SlowCoordinator:
    """Coordinator that responds when the test says so, or at once with the results in `now`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Producer, list[TopicPartition]]] = []
        self.waiting: list[asyncio.Future[Codes | None]] = []
        self.now: list[Outcome] = []

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> Answer[None]:
        assert client_version == EPOCH_PER_TRANSACTION
        return self._asked("add", transactional_id, producer, partitions)  # type: ignore[return-value]

    def verify(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]) -> Answer[Codes]:
        return self._asked("verify", transactional_id, producer, partitions)  # type: ignore[return-value]

    def _asked(
        self, what: str, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Answer[Codes | None]:
        self.asked.append((what, transactional_id, producer, list(partitions)))
        if self.now:
            outcome = self.now.pop(0)
            if isinstance(outcome, KafkaError):
                raise outcome
            return outcome
        future: asyncio.Future[Codes | None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future

    def answers(self, outcome: Outcome = None, index: int = 0) -> None:
        future = self.waiting.pop(index)
        if isinstance(outcome, KafkaError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


class Door:
    """A gate with two partitions, and the outcomes of all batches that entered it."""

    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.loop = loop
        self.coordinator = SlowCoordinator()
        self.verifies = True
        self.told: list[str] = []
        self.append_errors: dict[str, KafkaError] = {}
        """Errors of the next append, by entry name."""
        self.gate = TransactionGate(
            coordinator=self.coordinator,
            config=TransactionConfig(),
            clock=VirtualClock(loop),
            verifies=lambda: self.verifies,
        )
        image = topic_image("t", 1, 1).partitions[0]
        self.partitions = [
            Partition(
                topic="t",
                topic_id=UUID(int=1),
                index=index,
                image=image,
                log=open_at(directory / f"t-{index}"),
                group_commit=no_group_commit(),
                peers=Alone(),
            )
            for index in range(2)
        ]

    def entry(self, name: str, producer: Producer = FIRST, index: int = 0, sequence: int = -1) -> Entry:
        """Return an entry whose batch is written when the gate admits it."""
        partition = self.partitions[index]

        def entered(error: KafkaError | None) -> KafkaError | None:
            if error is None:
                error = self.append_errors.pop(name, None)
            if error is None:
                try:
                    self.write(producer, name, index)
                except KafkaError as refusal:
                    error = refusal
            self.told.append(name if error is None else f"{name} {error.code.name}")
            return error

        return Entry(partition, producer, sequence, entered)

    def write(self, producer: Producer, value: str, index: int = 0) -> None:
        partition = self.partitions[index]
        entry = partition.log.producers.entries.get(producer.producer_id)
        known = entry is not None and entry.producer_epoch == producer.epoch
        sequence = entry.last_sequence + 1 if entry is not None and known else 0
        records = batch(
            value.encode(),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            sequence=sequence,
            transactional=True,
        )
        partition.append(records, acks=-1)

    def mark(self, producer: Producer, *, version: int) -> None:
        marker = Marker(*producer, is_commit=True, coordinator_epoch=0, transaction_version=version)
        append_marker(self.partitions[0], marker, NOW_MS)

    def enter(
        self, *entries: Entry, adds: bool = True, supports_abortable: bool = True, transactional_id: str = "x"
    ) -> None:
        async def call() -> None:
            self.gate.enter(
                TransactionClaim(transactional_id=transactional_id, adds=adds, supports_abortable=supports_abortable),
                entries,
            )
            await settle()

        self.loop.run_until_complete(call())

    def answers(self, outcome: Outcome = None, index: int = 0) -> None:
        async def call() -> None:
            self.coordinator.answers(outcome, index)
            await settle()

        self.loop.run_until_complete(call())

    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with virtual_loop() as loop:
        yield Door(tmp_path, loop)


def test_batches_after_a_waiting_batch_keep_their_order(door: Door) -> None:
    door.enter(door.entry("a"))
    door.enter(door.entry("b"))
    door.enter(door.entry("c"))
    assert not door.told
    assert door.coordinator.asked == [("add", "x", FIRST, [("t", 0)])]
    assert not door.gate.is_open(door.partitions[0], FIRST, adds=True)
    door.answers()
    assert door.told == ["a", "b", "c"]
    assert door.gate.is_open(door.partitions[0], FIRST, adds=True)
    assert not door.partitions[0].verifications


def test_other_producers_partitions_and_epochs_do_not_wait(door: Door) -> None:
    door.enter(door.entry("a"))
    door.enter(door.entry("b", SECOND))
    door.enter(door.entry("c", index=1))
    door.enter(door.entry("d", Producer(1, 1)))
    assert len(door.coordinator.asked) == 4
    for index in (3, 2, 1, 0):
        door.answers(index=index)
    assert door.told == ["d", "c", "b", "a INVALID_PRODUCER_EPOCH"]


def test_partitions_of_one_producer_share_one_verification_request(door: Door) -> None:
    door.enter(door.entry("a"), door.entry("b", index=1), door.entry("c", SECOND))
    assert [asked[2:] for asked in door.coordinator.asked] == [(FIRST, [("t", 0), ("t", 1)]), (SECOND, [("t", 0)])]


def test_an_open_transaction_needs_no_verification(door: Door) -> None:
    partition = door.partitions[0]
    assert not door.gate.is_open(partition, FIRST, adds=False)
    door.write(FIRST, "a")
    assert door.gate.is_open(partition, FIRST, adds=False)
    assert not door.gate.is_open(partition, Producer(1, 1), adds=False)
    assert not door.gate.is_open(partition, SECOND, adds=True)


def test_without_verification_only_requests_that_add_partitions_wait(door: Door) -> None:
    door.verifies = False
    assert door.gate.is_open(door.partitions[0], FIRST, adds=False)
    assert not door.gate.is_open(door.partitions[0], FIRST, adds=True)


@pytest.mark.parametrize(
    ("marker", "version", "is_void"),
    [
        (Producer(1, 0), CLASSIC, True),  # a classic transaction ends with its own epoch
        (Producer(1, 1), CLASSIC, True),  # the producer is fenced
        (Producer(1, 1), EPOCH_PER_TRANSACTION, True),
        (Producer(1, 0), EPOCH_PER_TRANSACTION, False),  # the end of the previous transaction
        (Producer(2, 0), CLASSIC, False),
    ],
)
def test_a_marker_during_verification_rejects_waiting_batches(
    door: Door, marker: Producer, version: int, is_void: bool
) -> None:
    door.enter(door.entry("a"))
    door.enter(door.entry("b"))
    door.mark(marker, version=version)
    door.answers()
    assert door.told == (["a INVALID_TXN_STATE", "b INVALID_TXN_STATE"] if is_void else ["a", "b"])


def test_a_verification_of_another_transaction_does_not_apply(door: Door) -> None:
    """Another client may use the same producer id and epoch, which are small numbers, with its own transactional id."""
    door.enter(door.entry("stranger", sequence=0), transactional_id="not mine")
    door.enter(door.entry("a", sequence=0), door.entry("b", sequence=1))
    assert door.told == ["a NOT_ENOUGH_REPLICAS", "b NOT_ENOUGH_REPLICAS"], "to come again"
    door.answers(KafkaError(E.INVALID_PRODUCER_ID_MAPPING))
    assert door.told.pop() == "stranger INVALID_PRODUCER_ID_MAPPING"
    door.enter(door.entry("a", sequence=0), door.entry("b", sequence=1))
    door.answers()
    assert door.told[2:] == ["a", "b"]


def test_a_wait_does_not_outlive_its_leader_epoch(door: Door) -> None:
    """Another leader may have written the marker; a batch after it would belong to a transaction without an end."""
    partition = door.partitions[0]
    led = dataclasses.replace(partition.image, replicas=(1, 2), isr=(1, 2), directories=partition.image.directories * 2)
    partition.update(led, is_led=True)
    door.enter(door.entry("a"), adds=False)
    partition.update(dataclasses.replace(led, leader=2, leader_epoch=led.leader_epoch + 1), is_led=False)
    partition.update(dataclasses.replace(led, leader_epoch=led.leader_epoch + 2), is_led=True)
    door.answers({("t", 0): E.NONE})
    assert door.told == ["a NOT_LEADER_OR_FOLLOWER"]
    door.enter(door.entry("b"), adds=False)
    door.answers({("t", 0): E.NONE})
    assert door.told == ["a NOT_LEADER_OR_FOLLOWER", "b"]


def test_a_batch_after_a_rejected_wait_is_verified_again(door: Door) -> None:
    door.enter(door.entry("a"))
    door.mark(FIRST, version=CLASSIC)
    door.answers()
    door.enter(door.entry("b"))
    door.answers()
    assert door.told == ["a INVALID_TXN_STATE", "b"]


def test_verification_has_a_result_for_each_partition(door: Door) -> None:
    door.enter(door.entry("a"), door.entry("b", index=1), adds=False)
    assert door.coordinator.asked[0][0] == "verify"
    door.answers({("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE})
    assert door.told == ["a", "b TRANSACTION_ABORTABLE"]


def test_an_immediate_verification_admits_the_batch_immediately(door: Door) -> None:
    door.coordinator.now = [None]
    door.enter(door.entry("a"))
    assert door.told == ["a"]
    door.coordinator.now = [KafkaError(ErrorCode.PRODUCER_FENCED)]
    door.enter(door.entry("b", SECOND))
    assert door.told == ["a", "b INVALID_PRODUCER_EPOCH"]


E = ErrorCode
TOLD = [
    # (coordinator's code, code for requests that add, code for those that verify, the same for old versions)
    (E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.COORDINATOR_NOT_AVAILABLE, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.NETWORK_EXCEPTION, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
    (E.INVALID_PRODUCER_ID_MAPPING, *[E.INVALID_PRODUCER_ID_MAPPING] * 3),
    (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE),
]


@pytest.mark.parametrize(("code", "adding", "verifying", "old"), TOLD)
def test_error_codes_for_producers(door: Door, code: E, adding: E, verifying: E, old: E) -> None:
    for name, adds, supports_abortable in (("a", True, True), ("b", False, True), ("c", False, False)):
        door.enter(door.entry(name), adds=adds, supports_abortable=supports_abortable)
        door.answers(KafkaError(code))
    assert door.told == [f"a {adding.name}", f"b {verifying.name}", f"c {old.name}"]


def test_verification_is_retriable_while_a_transaction_ends(door: Door) -> None:
    door.coordinator.now = [KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)]
    door.enter(door.entry("a"), adds=False)
    assert door.told == ["a NOT_ENOUGH_REPLICAS"]


def test_verification_is_retried_while_the_transaction_ends(door: Door) -> None:
    ending = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    door.coordinator.now = [ending, ending, ending, None]
    door.enter(door.entry("a"))
    door.enter(door.entry("b"))
    door.wait(0.041)
    assert not door.told
    door.wait(0.02)
    assert door.told == ["a", "b"]
    assert len(door.coordinator.asked) == 4


def test_verification_gets_concurrent_transactions_when_retries_end(door: Door) -> None:
    door.coordinator.now = [KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)] * 100
    door.enter(door.entry("a"))
    door.wait(0.099)
    assert not door.told
    door.wait(0.05)
    assert door.told == ["a CONCURRENT_TRANSACTIONS"]
    assert len(door.coordinator.asked) == 6
    assert not door.partitions[0].verifications


def test_verification_at_another_broker_is_retried_while_the_transaction_ends(door: Door) -> None:
    door.enter(door.entry("a"))
    door.coordinator.now = [None]
    door.answers(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert not door.told
    door.wait(0.021)
    assert door.told == ["a"]


def test_a_different_error_ends_the_verification_retries(door: Door) -> None:
    door.coordinator.now = [KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS), KafkaError(ErrorCode.PRODUCER_FENCED)]
    door.enter(door.entry("a"))
    door.wait(0.021)
    assert door.told == ["a INVALID_PRODUCER_EPOCH"]


def test_stopping_the_gate_rejects_all_waiting_batches(door: Door) -> None:
    door.enter(door.entry("a"))
    door.enter(door.entry("b"))
    door.gate.stop()
    door.wait(0)
    assert door.told == ["a NOT_ENOUGH_REPLICAS", "b NOT_ENOUGH_REPLICAS"]


def test_a_rejected_batch_must_be_resent_before_later_sequences(door: Door) -> None:
    door.enter(door.entry("a", sequence=3))
    door.enter(door.entry("b", sequence=4))
    door.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    door.enter(door.entry("b", sequence=4))
    door.answers()
    door.enter(door.entry("a", sequence=3))
    door.answers()
    door.enter(door.entry("b", SECOND, sequence=4))
    door.answers()
    refused = ["a NOT_ENOUGH_REPLICAS", "b NOT_ENOUGH_REPLICAS", "b OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert door.told == [*refused, "a", "b"]


def test_a_later_batch_does_not_follow_one_that_the_append_refused(door: Door) -> None:
    verified = {("t", 0): E.NONE}
    door.append_errors = {"a": KafkaError(E.MESSAGE_TOO_LARGE)}
    door.enter(door.entry("a", sequence=0), door.entry("b", sequence=5), adds=False)
    door.answers(verified)
    door.enter(door.entry("b", sequence=5), adds=False)
    door.answers(verified)
    door.enter(door.entry("smaller a", sequence=0), adds=False)
    door.answers(verified)
    later = ["b OUT_OF_ORDER_SEQUENCE_NUMBER"] * 2
    assert door.told == ["a MESSAGE_TOO_LARGE", *later, "smaller a"]
    assert door.gate.is_open(door.partitions[0], FIRST, adds=False), "the log checks the sequences from here on"


def test_an_append_that_is_refused_twice_is_remembered_by_its_lowest_sequence(door: Door) -> None:
    verified = {("t", 0): E.NONE}
    for name, sequence in (("later", 7), ("first", 2), ("later", 7)):
        door.append_errors = {name: KafkaError(E.NOT_ENOUGH_REPLICAS)}
        door.enter(door.entry(name, sequence=sequence), adds=False)
        door.answers(verified)
    door.enter(door.entry("between", sequence=4), adds=False)
    door.answers(verified)
    out_of_order = ["later OUT_OF_ORDER_SEQUENCE_NUMBER", "between OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert door.told == ["later NOT_ENOUGH_REPLICAS", "first NOT_ENOUGH_REPLICAS", *out_of_order]


def test_a_rejection_of_an_older_epoch_does_not_affect_a_newer_one(door: Door) -> None:
    door.enter(door.entry("new", SECOND, sequence=3))
    door.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    door.enter(door.entry("old", FIRST, sequence=7))
    door.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    door.enter(door.entry("old", FIRST, sequence=7))
    door.answers()
    door.enter(door.entry("later", SECOND, sequence=4))
    door.answers()
    refused = ["new NOT_ENOUGH_REPLICAS", "old NOT_ENOUGH_REPLICAS"]
    assert door.told == [*refused, "old", "later OUT_OF_ORDER_SEQUENCE_NUMBER"]


def test_a_rejection_of_a_newer_epoch_is_kept_when_an_older_epoch_produces(door: Door) -> None:
    newer, older = Producer(1, 1), Producer(1, 0)
    door.enter(door.entry("new", newer, sequence=3))
    door.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    door.enter(door.entry("old", older, sequence=7))
    door.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    door.enter(door.entry("old", older, sequence=8))
    door.answers()
    door.enter(door.entry("later", newer, sequence=4))
    door.answers()
    refused = ["new NOT_ENOUGH_REPLICAS", "old NOT_ENOUGH_REPLICAS"]
    assert door.told == [*refused, "old", "later OUT_OF_ORDER_SEQUENCE_NUMBER"]


def test_a_marker_clears_rejected_batches(door: Door) -> None:
    door.enter(door.entry("a", sequence=3))
    door.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    door.mark(FIRST, version=CLASSIC)
    door.enter(door.entry("b", sequence=4))
    door.answers()
    assert door.told == ["a NOT_ENOUGH_REPLICAS", "b"]


def test_a_rejected_duplicate_does_not_block_the_next_sequence(door: Door) -> None:
    """The duplicate's transaction has ended, and the classic client's next transaction continues with the next
    sequence.
    """
    door.write(FIRST, "first")
    door.mark(FIRST, version=CLASSIC)
    door.enter(door.entry("first again", sequence=0), adds=False)
    door.answers(KafkaError(E.NOT_COORDINATOR))
    door.enter(door.entry("second", sequence=1), adds=False)
    door.answers({("t", 0): E.NONE})
    assert door.told == ["first again NOT_ENOUGH_REPLICAS", "second"]


def test_a_rejected_batch_that_was_replicated_does_not_block_the_next_sequence(door: Door) -> None:
    """The first leader refused the batch, another one wrote it, and the first one leads again for the next batch."""
    door.write(FIRST, "before")
    door.mark(FIRST, version=CLASSIC)
    door.enter(door.entry("first", sequence=1), adds=False)
    door.answers(KafkaError(E.NOT_COORDINATOR))
    door.write(FIRST, "first")  # as replication writes it
    door.enter(door.entry("second", sequence=2), adds=False)
    door.answers({("t", 0): E.NONE})
    assert door.told == ["first NOT_ENOUGH_REPLICAS", "second"]


def test_the_number_of_remembered_rejections_is_bounded(door: Door) -> None:
    claim = TransactionClaim(transactional_id="x", adds=True, supports_abortable=True)
    for number in range(PRODUCERS_MAX + 5):
        door.coordinator.now = [KafkaError(ErrorCode.NOT_COORDINATOR)]
        producer = Producer(number, 0)
        door.gate.enter(claim, [door.entry("a", producer, sequence=0)])
    assert len(door.partitions[0].log.producers.refused._not_admitted) == PRODUCERS_MAX

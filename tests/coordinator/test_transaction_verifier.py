"""Transaction verifier: order of waiting batches, events that end a wait, and error codes for producers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.partitions.partition import Partition
from kwire.coordinator.answers import Answer
from kwire.coordinator.markers import TransactionMarker, append_marker
from kwire.coordinator.transaction.config import TransactionConfig
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import CLASSIC, TopicPartition
from kwire.coordinator.transaction.verifier import TransactionClaim, TransactionVerifier, UnverifiedBatch
from kwire.log.rejected_batches import PRODUCERS_MAX
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
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


class VerifierWorld:
    """A verifier with two partitions, and the outcomes of all batches that on_verified it."""

    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.loop = loop
        self.coordinator = SlowCoordinator()
        self.verifies = True
        self.reported: list[str] = []
        self.append_errors: dict[str, KafkaError] = {}
        """Errors of the next append, by entry name."""
        self.verifier = TransactionVerifier(
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

    def entry(self, name: str, producer: Producer = FIRST, index: int = 0, sequence: int = -1) -> UnverifiedBatch:
        """Return an entry whose batch is written when it is verified."""
        partition = self.partitions[index]

        def on_verified(error: KafkaError | None) -> KafkaError | None:
            if error is None:
                error = self.append_errors.pop(name, None)
            if error is None:
                try:
                    self.write(producer, name, index)
                except KafkaError as rejection:
                    error = rejection
            self.reported.append(name if error is None else f"{name} {error.code.name}")
            return error

        return UnverifiedBatch(partition, producer, sequence, on_verified)

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
        marker = TransactionMarker(*producer, is_commit=True, coordinator_epoch=0, transaction_version=version)
        append_marker(self.partitions[0], marker, NOW_MS)

    def verify(
        self, *batches: UnverifiedBatch, adds: bool = True, supports_abortable: bool = True, transactional_id: str = "x"
    ) -> None:
        async def call() -> None:
            self.verifier.verify(
                TransactionClaim(transactional_id=transactional_id, adds=adds, supports_abortable=supports_abortable),
                batches,
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
def world(tmp_path: Path) -> Iterator[VerifierWorld]:
    with virtual_loop() as loop:
        yield VerifierWorld(tmp_path, loop)


def test_batches_after_a_waiting_batch_keep_their_order(world: VerifierWorld) -> None:
    world.verify(world.entry("a"))
    world.verify(world.entry("b"))
    world.verify(world.entry("c"))
    assert not world.reported
    assert world.coordinator.asked == [("add", "x", FIRST, [("t", 0)])]
    assert not world.verifier.can_write(world.partitions[0], FIRST, adds=True)
    world.answers()
    assert world.reported == ["a", "b", "c"]
    assert world.verifier.can_write(world.partitions[0], FIRST, adds=True)
    assert not world.partitions[0].verifications


def test_other_producers_partitions_and_epochs_do_not_wait(world: VerifierWorld) -> None:
    world.verify(world.entry("a"))
    world.verify(world.entry("b", SECOND))
    world.verify(world.entry("c", index=1))
    world.verify(world.entry("d", Producer(1, 1)))
    assert len(world.coordinator.asked) == 4
    for index in (3, 2, 1, 0):
        world.answers(index=index)
    assert world.reported == ["d", "c", "b", "a INVALID_PRODUCER_EPOCH"]


def test_partitions_of_one_producer_share_one_verification_request(world: VerifierWorld) -> None:
    world.verify(world.entry("a"), world.entry("b", index=1), world.entry("c", SECOND))
    assert [asked[2:] for asked in world.coordinator.asked] == [(FIRST, [("t", 0), ("t", 1)]), (SECOND, [("t", 0)])]


def test_an_open_transaction_needs_no_verification(world: VerifierWorld) -> None:
    partition = world.partitions[0]
    assert not world.verifier.can_write(partition, FIRST, adds=False)
    world.write(FIRST, "a")
    assert world.verifier.can_write(partition, FIRST, adds=False)
    assert not world.verifier.can_write(partition, Producer(1, 1), adds=False)
    assert not world.verifier.can_write(partition, SECOND, adds=True)


def test_without_verification_only_requests_that_add_partitions_wait(world: VerifierWorld) -> None:
    world.verifies = False
    assert world.verifier.can_write(world.partitions[0], FIRST, adds=False)
    assert not world.verifier.can_write(world.partitions[0], FIRST, adds=True)


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
    world: VerifierWorld, marker: Producer, version: int, is_void: bool
) -> None:
    world.verify(world.entry("a"))
    world.verify(world.entry("b"))
    world.mark(marker, version=version)
    world.answers()
    assert world.reported == (["a INVALID_TXN_STATE", "b INVALID_TXN_STATE"] if is_void else ["a", "b"])


def test_a_verification_of_another_transaction_does_not_apply(world: VerifierWorld) -> None:
    """Another client may use the same producer id and epoch, which are small numbers, with its own transactional id."""
    world.verify(world.entry("other client", sequence=0), transactional_id="not mine")
    world.verify(world.entry("a", sequence=0), world.entry("b", sequence=1))
    assert world.reported == ["a NOT_ENOUGH_REPLICAS", "b NOT_ENOUGH_REPLICAS"], "to come again"
    world.answers(KafkaError(E.INVALID_PRODUCER_ID_MAPPING))
    assert world.reported.pop() == "other client INVALID_PRODUCER_ID_MAPPING"
    world.verify(world.entry("a", sequence=0), world.entry("b", sequence=1))
    world.answers()
    assert world.reported[2:] == ["a", "b"]


def test_a_wait_does_not_outlive_its_leader_epoch(world: VerifierWorld) -> None:
    """Another leader may have written the marker; a batch after it would belong to a transaction without an end."""
    partition = world.partitions[0]
    led = dataclasses.replace(partition.image, replicas=(1, 2), isr=(1, 2), directories=partition.image.directories * 2)
    partition.update(led, is_led=True)
    world.verify(world.entry("a"), adds=False)
    partition.update(dataclasses.replace(led, leader=2, leader_epoch=led.leader_epoch + 1), is_led=False)
    partition.update(dataclasses.replace(led, leader_epoch=led.leader_epoch + 2), is_led=True)
    world.answers({("t", 0): E.NONE})
    assert world.reported == ["a NOT_LEADER_OR_FOLLOWER"]
    world.verify(world.entry("b"), adds=False)
    world.answers({("t", 0): E.NONE})
    assert world.reported == ["a NOT_LEADER_OR_FOLLOWER", "b"]


def test_a_batch_after_a_rejected_wait_is_verified_again(world: VerifierWorld) -> None:
    world.verify(world.entry("a"))
    world.mark(FIRST, version=CLASSIC)
    world.answers()
    world.verify(world.entry("b"))
    world.answers()
    assert world.reported == ["a INVALID_TXN_STATE", "b"]


def test_verification_has_a_result_for_each_partition(world: VerifierWorld) -> None:
    world.verify(world.entry("a"), world.entry("b", index=1), adds=False)
    assert world.coordinator.asked[0][0] == "verify"
    world.answers({("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE})
    assert world.reported == ["a", "b TRANSACTION_ABORTABLE"]


def test_an_immediate_verification_admits_the_batch_immediately(world: VerifierWorld) -> None:
    world.coordinator.now = [None]
    world.verify(world.entry("a"))
    assert world.reported == ["a"]
    world.coordinator.now = [KafkaError(ErrorCode.PRODUCER_FENCED)]
    world.verify(world.entry("b", SECOND))
    assert world.reported == ["a", "b INVALID_PRODUCER_EPOCH"]


E = ErrorCode
REPORTED = [
    # (coordinator's code, code for requests that add, code for those that verify, the same for old versions)
    (E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.COORDINATOR_NOT_AVAILABLE, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.NETWORK_EXCEPTION, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
    (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
    (E.INVALID_PRODUCER_ID_MAPPING, *[E.INVALID_PRODUCER_ID_MAPPING] * 3),
    (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE),
]


@pytest.mark.parametrize(("code", "adding", "verifying", "old"), REPORTED)
def test_error_codes_for_producers(world: VerifierWorld, code: E, adding: E, verifying: E, old: E) -> None:
    for name, adds, supports_abortable in (("a", True, True), ("b", False, True), ("c", False, False)):
        world.verify(world.entry(name), adds=adds, supports_abortable=supports_abortable)
        world.answers(KafkaError(code))
    assert world.reported == [f"a {adding.name}", f"b {verifying.name}", f"c {old.name}"]


def test_verification_is_retriable_while_a_transaction_ends(world: VerifierWorld) -> None:
    world.coordinator.now = [KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)]
    world.verify(world.entry("a"), adds=False)
    assert world.reported == ["a NOT_ENOUGH_REPLICAS"]


def test_verification_is_retried_while_the_transaction_ends(world: VerifierWorld) -> None:
    ending = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    world.coordinator.now = [ending, ending, ending, None]
    world.verify(world.entry("a"))
    world.verify(world.entry("b"))
    world.wait(0.041)
    assert not world.reported
    world.wait(0.02)
    assert world.reported == ["a", "b"]
    assert len(world.coordinator.asked) == 4


def test_verification_gets_concurrent_transactions_when_retries_end(world: VerifierWorld) -> None:
    world.coordinator.now = [KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)] * 100
    world.verify(world.entry("a"))
    world.wait(0.099)
    assert not world.reported
    world.wait(0.05)
    assert world.reported == ["a CONCURRENT_TRANSACTIONS"]
    assert len(world.coordinator.asked) == 6
    assert not world.partitions[0].verifications


def test_verification_at_another_broker_is_retried_while_the_transaction_ends(world: VerifierWorld) -> None:
    world.verify(world.entry("a"))
    world.coordinator.now = [None]
    world.answers(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert not world.reported
    world.wait(0.021)
    assert world.reported == ["a"]


def test_a_different_error_ends_the_verification_retries(world: VerifierWorld) -> None:
    world.coordinator.now = [KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS), KafkaError(ErrorCode.PRODUCER_FENCED)]
    world.verify(world.entry("a"))
    world.wait(0.021)
    assert world.reported == ["a INVALID_PRODUCER_EPOCH"]


def test_stopping_the_verifier_rejects_all_waiting_batches(world: VerifierWorld) -> None:
    world.verify(world.entry("a"))
    world.verify(world.entry("b"))
    world.verifier.stop()
    world.wait(0)
    assert world.reported == ["a NOT_ENOUGH_REPLICAS", "b NOT_ENOUGH_REPLICAS"]


def test_a_rejected_batch_must_be_resent_before_later_sequences(world: VerifierWorld) -> None:
    world.verify(world.entry("a", sequence=3))
    world.verify(world.entry("b", sequence=4))
    world.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.verify(world.entry("b", sequence=4))
    world.answers()
    world.verify(world.entry("a", sequence=3))
    world.answers()
    world.verify(world.entry("b", SECOND, sequence=4))
    world.answers()
    rejected = ["a NOT_ENOUGH_REPLICAS", "b NOT_ENOUGH_REPLICAS", "b OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert world.reported == [*rejected, "a", "b"]


def test_a_later_batch_does_not_follow_one_that_the_append_rejected(world: VerifierWorld) -> None:
    verified = {("t", 0): E.NONE}
    world.append_errors = {"a": KafkaError(E.MESSAGE_TOO_LARGE)}
    world.verify(world.entry("a", sequence=0), world.entry("b", sequence=5), adds=False)
    world.answers(verified)
    world.verify(world.entry("b", sequence=5), adds=False)
    world.answers(verified)
    world.verify(world.entry("smaller a", sequence=0), adds=False)
    world.answers(verified)
    later = ["b OUT_OF_ORDER_SEQUENCE_NUMBER"] * 2
    assert world.reported == ["a MESSAGE_TOO_LARGE", *later, "smaller a"]
    assert world.verifier.can_write(world.partitions[0], FIRST, adds=False), "the log checks the sequences from here on"


def test_an_append_that_is_rejected_twice_is_remembered_by_its_lowest_sequence(world: VerifierWorld) -> None:
    verified = {("t", 0): E.NONE}
    for name, sequence in (("later", 7), ("first", 2), ("later", 7)):
        world.append_errors = {name: KafkaError(E.NOT_ENOUGH_REPLICAS)}
        world.verify(world.entry(name, sequence=sequence), adds=False)
        world.answers(verified)
    world.verify(world.entry("between", sequence=4), adds=False)
    world.answers(verified)
    out_of_order = ["later OUT_OF_ORDER_SEQUENCE_NUMBER", "between OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert world.reported == ["later NOT_ENOUGH_REPLICAS", "first NOT_ENOUGH_REPLICAS", *out_of_order]


def test_a_rejection_of_an_older_epoch_does_not_affect_a_newer_one(world: VerifierWorld) -> None:
    world.verify(world.entry("new", SECOND, sequence=3))
    world.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.verify(world.entry("old", FIRST, sequence=7))
    world.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.verify(world.entry("old", FIRST, sequence=7))
    world.answers()
    world.verify(world.entry("later", SECOND, sequence=4))
    world.answers()
    rejected = ["new NOT_ENOUGH_REPLICAS", "old NOT_ENOUGH_REPLICAS"]
    assert world.reported == [*rejected, "old", "later OUT_OF_ORDER_SEQUENCE_NUMBER"]


def test_a_rejection_of_a_newer_epoch_is_kept_when_an_older_epoch_produces(world: VerifierWorld) -> None:
    newer, older = Producer(1, 1), Producer(1, 0)
    world.verify(world.entry("new", newer, sequence=3))
    world.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.verify(world.entry("old", older, sequence=7))
    world.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.verify(world.entry("old", older, sequence=8))
    world.answers()
    world.verify(world.entry("later", newer, sequence=4))
    world.answers()
    rejected = ["new NOT_ENOUGH_REPLICAS", "old NOT_ENOUGH_REPLICAS"]
    assert world.reported == [*rejected, "old", "later OUT_OF_ORDER_SEQUENCE_NUMBER"]


def test_a_marker_clears_rejected_batches(world: VerifierWorld) -> None:
    world.verify(world.entry("a", sequence=3))
    world.answers(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.mark(FIRST, version=CLASSIC)
    world.verify(world.entry("b", sequence=4))
    world.answers()
    assert world.reported == ["a NOT_ENOUGH_REPLICAS", "b"]


def test_a_rejected_duplicate_does_not_block_the_next_sequence(world: VerifierWorld) -> None:
    """The duplicate's transaction has ended, and the classic client's next transaction continues with the next
    sequence.
    """
    world.write(FIRST, "first")
    world.mark(FIRST, version=CLASSIC)
    world.verify(world.entry("first again", sequence=0), adds=False)
    world.answers(KafkaError(E.NOT_COORDINATOR))
    world.verify(world.entry("second", sequence=1), adds=False)
    world.answers({("t", 0): E.NONE})
    assert world.reported == ["first again NOT_ENOUGH_REPLICAS", "second"]


def test_a_rejected_batch_that_was_replicated_does_not_block_the_next_sequence(world: VerifierWorld) -> None:
    """The first leader rejected the batch, another one wrote it, and the first one leads again for the next batch."""
    world.write(FIRST, "before")
    world.mark(FIRST, version=CLASSIC)
    world.verify(world.entry("first", sequence=1), adds=False)
    world.answers(KafkaError(E.NOT_COORDINATOR))
    world.write(FIRST, "first")  # as replication writes it
    world.verify(world.entry("second", sequence=2), adds=False)
    world.answers({("t", 0): E.NONE})
    assert world.reported == ["first NOT_ENOUGH_REPLICAS", "second"]


def test_the_number_of_remembered_rejections_is_bounded(world: VerifierWorld) -> None:
    claim = TransactionClaim(transactional_id="x", adds=True, supports_abortable=True)
    for number in range(PRODUCERS_MAX + 5):
        world.coordinator.now = [KafkaError(ErrorCode.NOT_COORDINATOR)]
        producer = Producer(number, 0)
        world.verifier.verify(claim, [world.entry("a", producer, sequence=0)])
    assert len(world.partitions[0].log.producers.rejected._unverified) == PRODUCERS_MAX

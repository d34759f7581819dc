"""Scene of a group whose offsets are committed in transactions that are open while the brokers are exchanged."""

from dataclasses import dataclass
from typing import Any

from compat_tests.exchanged_groups.asking import Asker, accepted
from compat_tests.exchanged_groups.scene import Scene
from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPIC = "orders"
TRANSACTION = 1
"""Key type of FindCoordinator."""
LASTING_MS = 600_000
SHORT_MS = 15_000
"""Longer than the broker takes to end, so that the next one aborts the transaction."""
BASE = 5


@dataclass(slots=True)
class Producer:
    """Transactional producer that commits offsets of one partition, either with one epoch a transaction or before."""

    asker: Asker
    group: str
    partition: int
    has_new_epochs: bool = False
    timeout_ms: int = LASTING_MS
    producer_id: int = -1
    epoch: int = -1

    @property
    def name(self) -> str:
        return f"{self.group}-{self.partition}"

    def init(self) -> None:
        def is_done() -> bool:
            self.asker.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.name]), 6)
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self.timeout_ms)
            answer = self.asker.ask(request, 5)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return not answer.error_code

        eventually(is_done, f"an epoch of {self.name}")

    def commit(self, offset: int) -> None:
        """Commit an offset in a transaction, which stays open."""
        if not self.has_new_epochs:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=self.group,
            )
            eventually(lambda: not self.asker.ask(request, 3).error_code, f"offsets to be added to {self.name}")
        partition = TxnOffsetCommitRequestPartition(
            partition_index=self.partition, committed_offset=offset, committed_metadata=None
        )
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        wanted = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=topics,
        )

        def is_done() -> bool:
            answer = self.asker.ask(wanted, 5 if self.has_new_epochs else 3)
            return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)

        eventually(is_done, f"offsets of {self.name}")

    def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = accepted(self.asker.ask(request, 5 if self.has_new_epochs else 3))
        if self.has_new_epochs:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


class Paying(Scene):
    """Transactions that are committed after one exchange, aborted after two, and timed out."""

    groups = ("classic-paid",)

    def begin(self) -> None:
        (group,) = self.groups
        self.old, self.aborted = Producer(self.asker, group, 0), Producer(self.asker, group, 1)
        self.new = Producer(self.asker, group, 2, has_new_epochs=True)
        self.timed_out = Producer(self.asker, group, 3, timeout_ms=SHORT_MS)
        for each in self._producers():
            each.init()
            for offset, committed in ((BASE, True), (BASE + 1, False)):
                each.commit(offset)
                each.end(committed=committed)
        self.expected = dict.fromkeys(range(4), BASE)
        self._wait()

    def _producers(self) -> list[Producer]:
        return [self.old, self.aborted, self.new, self.timed_out]

    def _offsets(self, *, stable: bool) -> dict[int, tuple[int, int]]:
        """Return (committed offset, error code) of each partition."""
        answer = self.asker.offsets(self.groups[0], stable=stable)
        return {
            each.partition_index: (each.committed_offset, each.error_code)
            for topic in answer.groups[0].topics
            for each in topic.partitions
        }

    def _wait(self, partitions: Any = range(4)) -> None:
        """Wait until the partitions have the expected offsets, and no transaction is open that changes them."""

        def is_done() -> bool:
            found = self._offsets(stable=True)
            return all(found[each] == (self.expected[each], 0) for each in partitions)

        eventually(is_done, "the offsets of ended transactions")

    def leave_open(self) -> None:
        stage = self.asker.stage
        self.old.commit(10 * (stage + 1))
        self.new.commit(11 * (stage + 1))
        if stage == 0:
            self.aborted.commit(12)
            self.timed_out.commit(13)
        self._check_open()

    def _check_open(self) -> None:
        """Check that open transactions hide the offsets of three partitions, and change none."""
        hidden, shown = self._offsets(stable=True), self._offsets(stable=False)
        for each in range(3):
            assert hidden[each] == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (each, hidden)
            assert shown[each] == (self.expected[each], 0), (each, shown)

    def resume(self) -> None:
        stage = self.asker.stage
        self._check_open()
        self.old.end(committed=True)
        self.new.end(committed=True)
        self.expected |= {0: 10 * stage, 2: 11 * stage}
        self._wait([0, 2])
        if stage == 1:
            self._wait([3])
        else:
            self.aborted.end(committed=False)
            self._wait()

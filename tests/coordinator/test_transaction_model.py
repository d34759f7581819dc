"""Transactions against a few sets: clients of old and new versions send any request at any time.

The model stores the owner of each transactional id, the records in its open transaction, and how each transaction has
ended. It checks the guarantees T3 to T10:

- a transaction ends atomically; with the newer protocol, each end starts a new epoch;
- no record is written without an added partition, no transaction stays open, and no decision changes;
- old producer instances are fenced, and markers of old coordinators are rejected.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.coordinator.transaction.states import PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import check_step
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.protocol.produce_exchange import ProducedPartition, ProducedTopic, ProduceExchange
from kwire.server.apis.records import produce
from kwire.server.apis.transactions import add_partitions_to_txn, end_txn, init_producer_id, write_txn_markers
from tests.coordinator.transaction_reading import committed_values
from tests.coordinator.transaction_script import settle
from tests.coordinator.transaction_world import TransactionWorld
from tests.crash.disk import RecordingDisk
from tests.log.support import batch
from tests.virtual_loop import VirtualLoop

IDS = ("x", "y")
PLACES = ("t-0", "t-1", "u-0")
TIMEOUT_MS = 1000
ABORT_INTERVAL_MS = 500
LONG_S = 2.0
"""Timeout in seconds. Rejected markers are retried ten times a second, so a longer timeout only slows the test."""
Identity = tuple[int, int]


@dataclass
class Owner:
    """Model of one transactional id."""

    identity: Identity | None = None
    """Producer id and epoch that may write and end transactions; None if there is none."""
    identities: list[Identity] = field(default_factory=list)
    """All producer ids and epochs that clients have received."""
    ended_with: Identity | None = None
    """Producer id and epoch of the last ended transaction; until its markers are written, late batches belong to it."""
    is_open: bool = False
    values: list[tuple[str, bytes]] = field(default_factory=list)
    """Records of the open transaction."""
    ended: list[tuple[str, bytes]] = field(default_factory=list)
    """Records of the last ended transaction; late batches are added."""
    ended_in_commit: bool = False

    def ends(self, *, is_commit: bool) -> None:
        """End the open transaction."""
        self.ended_with, self.is_open = self.identity, False
        self.ended, self.values, self.ended_in_commit = self.values, [], is_commit


class TransactionModel(RuleBasedStateMachine):
    """Model test; requests go through the handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.world = TransactionWorld("/kafka", self.loop, RecordingDisk({"kafka": {}}))
        self.world.config = replace(self.world.config, abort_interval_ms=ABORT_INTERVAL_MS)
        self.owners = {name: Owner() for name in IDS}
        self.committed: list[list[tuple[str, bytes]]] = []
        """Values of committed transactions; late batches may still be added to these lists."""
        self.number = 0
        self.stores_nothing = False
        self.sequences: dict[tuple[str, Identity], int] = {}
        self.reported: set[tuple[Identity, bool]] = set()
        self.run(self.world.start())

    def run(self, call: Any) -> Any:
        async def run() -> Any:
            answer = await asyncio.wait_for(call, 2 * LONG_S)
            await settle()
            return answer

        return self.loop.run_until_complete(run())

    def teardown(self) -> None:
        self.everything_ends()
        self.world.stop()
        self.run(settle())
        self.loop.close()

    def ended(self, owner: Owner, *, is_commit: bool) -> None:
        owner.ends(is_commit=is_commit)
        if is_commit:
            self.committed.append(owner.ended)

    def pick(self, owner: Owner, age: int) -> Identity:
        """Return an identity that a client has received; age 0 is the newest."""
        return owner.identities[-1 - min(age, len(owner.identities) - 1)]

    # --- beginning

    @rule(name=st.sampled_from(IDS), keep=st.booleans(), age=st.integers(0, 2))
    def init(self, name: str, keep: bool, age: int) -> None:
        owner = self.owners[name]
        keeps = keep and bool(owner.identities)
        producer_id, epoch = self.pick(owner, age) if keeps else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, producer_id=producer_id, producer_epoch=epoch
        )
        answer = self.run(self.world.ask(init_producer_id.API, request, 5))
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            if owner.is_open:
                self.ended(owner, is_commit=False)
                owner.identity = None
            return
        if answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            assert self.stores_nothing
            return
        if answer.error_code:
            assert keeps
            assert answer.error_code == ErrorCode.PRODUCER_FENCED
            return
        assert not owner.is_open
        found = (answer.producer_id, answer.producer_epoch)
        is_repeated = keeps and found == owner.identities[-1]
        assert is_repeated or found not in owner.identities, "T9: no client gets an identity that another one has had"
        owner.identity = found
        owner.identities.append(found)

    # --- writing

    @rule(name=st.sampled_from(IDS), places=st.sets(st.sampled_from(PLACES), min_size=1), age=st.integers(0, 1))
    def add(self, name: str, places: set[str], age: int) -> None:
        owner = self.owners[name]
        if not owner.identities:
            return
        identity = self.pick(owner, age)
        topics = [
            AddPartitionsToTxnTopic(name=place.split("-")[0], partitions=[int(place.split("-")[1])]) for place in places
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=topics,
        )
        answer = self.run(self.world.ask(add_partitions_to_txn.API, request, 3))
        codes = {
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        assert len(codes) == 1
        if codes == {ErrorCode.NONE}:
            assert identity == owner.identity, "T9: who has no right to it adds to a transaction"
            owner.is_open = True
        elif identity == owner.identity:
            assert codes <= {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}

    @rule(
        name=st.sampled_from(IDS),
        place=st.sampled_from(PLACES),
        version=st.sampled_from([11, 12]),
        age=st.integers(0, 2),
    )
    def write(self, name: str, place: str, version: int, age: int) -> None:
        owner = self.owners[name]
        if not owner.identities:
            return
        identity = self.pick(owner, age)
        self.number += 1
        value = b"%d" % self.number
        sequence = self.sequences.get((place, identity), 0)
        records = batch(
            value,
            timestamp=self.world.clock.wall_ms(),
            producer_id=identity[0],
            producer_epoch=identity[1],
            sequence=sequence,
            transactional=True,
        )
        exchange = ProduceExchange(name, -1, 5000)
        topic, index = place.split("-")
        exchange.topics.append(ProducedTopic(topic, None))
        data = ProducedPartition(int(index), bytes(records))
        exchange.topics[0].partitions.append(data)
        self.run(self.world.ask(produce.API, exchange, version))
        if data.error_code:
            if version == 12 and identity == owner.identity and self.state(name) is TransactionState.ONGOING:
                owner.is_open = True  # the request added the partition before the batch was rejected
            return
        self.sequences[place, identity] = sequence + 1
        if identity == owner.identity and not self.is_late(owner, identity):
            assert version == 12 or owner.is_open, "T6: written without having been added"
            owner.is_open = True
            owner.values.append((place, value))
        else:
            assert identity == owner.ended_with, "T5: written by an epoch that is over"
            owner.ended.append((place, value))

    def is_late(self, owner: Owner, identity: Identity) -> bool:
        """Return True if a batch belongs to the transaction that is ending: a classic producer keeps its epoch."""
        name = next(name for name, each in self.owners.items() if each is owner)
        return identity == owner.ended_with and self.state(name) in PREPARED

    # --- ending

    @rule(name=st.sampled_from(IDS), is_commit=st.booleans(), version=st.sampled_from([4, 5]), age=st.integers(0, 2))
    def end(self, name: str, is_commit: bool, version: int, age: int) -> None:
        owner = self.owners[name]
        if not owner.identities:
            return
        identity = self.pick(owner, age)
        before = self.world.machine().transactions[name]
        request = EndTxnRequest(
            transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], committed=is_commit
        )
        answer = self.run(self.world.ask(end_txn.API, request, version))
        if answer.error_code:
            if answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE and owner.is_open:
                assert identity != owner.identity, "who has the right to end a transaction cannot"
            return
        after = (answer.producer_id, answer.producer_epoch)
        if owner.is_open and identity == owner.identity:
            self.ended(owner, is_commit=is_commit)
        else:
            assert not owner.is_open, "T9: another client ended it"
            stays = self.world.machine().transactions[name] == before
            assert stays or (version == 5 and not is_commit and identity == owner.identity), "a repeated end ends again"
            assert stays is False or owner.ended_with is None or owner.ended_in_commit is is_commit, "T8: it was turned"
            if not stays:
                owner.ended_with, owner.ended, owner.ended_in_commit = None, [], False
        if version == 5:
            assert after[0] == identity[0]
            assert after[1] == identity[1] + 1, "T5: each end has the next epoch"
            if after not in owner.identities:
                owner.identities.append(after)
                owner.identity = after

    # --- other events

    @rule(seconds=st.sampled_from([0.2, 0.6, LONG_S]))
    def wait(self, seconds: float) -> None:
        opened = {name: self.state(name) for name in IDS}
        self.run(asyncio.sleep(seconds))
        for name, owner in self.owners.items():
            if opened[name] is TransactionState.ONGOING and self.state(name) is not TransactionState.ONGOING:
                assert owner.is_open
                self.ended(owner, is_commit=False)
                owner.identity = None
            elif seconds == LONG_S and not self.stores_nothing:
                assert not owner.is_open, "T7: it is open for longer than it may be"

    @rule()
    def restart(self) -> None:
        self.world.stop()
        self.run(settle())
        self.stores_nothing = False
        self.run(self.world.start())

    @rule(place=st.sampled_from(PLACES), reject=st.booleans())
    def reject(self, place: str, reject: bool) -> None:
        self.world.reject_appends(place, reject=reject)

    @rule(reject=st.booleans())
    def reject_to_store(self, reject: bool) -> None:
        self.stores_nothing = reject
        self.world.reject_appends("__transaction_state-0", reject=reject)

    @rule(place=st.sampled_from(PLACES), name=st.sampled_from(IDS), is_commit=st.booleans())
    def marker_of_an_old_coordinator(self, place: str, name: str, is_commit: bool) -> None:
        owner = self.owners[name]
        log = self.world.partition(place).log
        if not owner.identities or log.producers.entries.get(owner.identities[-1][0]) is None:
            return
        entry = log.producers.entries[owner.identities[-1][0]]
        if entry.coordinator_epoch < 0:
            return
        topic, index = place.split("-")
        marker = WritableTxnMarker(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            transaction_result=is_commit,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[int(index)])],
            coordinator_epoch=entry.coordinator_epoch - 1,
        )
        end = log.log_end_offset
        answer = self.run(self.world.ask(write_txn_markers.API, WriteTxnMarkersRequest(markers=[marker]), 2))
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code in (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.NOT_ENOUGH_REPLICAS), "T10"
        assert log.log_end_offset == end

    # --- invariants

    def state(self, name: str) -> TransactionState | None:
        transaction = self.world.machine().transactions.get(name)
        return None if transaction is None else transaction.state

    def visible(self) -> dict[str, list[bytes]]:
        return {place: committed_values(self.world.partition(place)) for place in PLACES}

    @invariant()
    def readers_see_what_was_committed(self) -> None:
        """T3: check that readers see all committed records in the order of writing, and no others."""
        allowed = {each for values in self.committed for each in values}
        for place, values in self.visible().items():
            assert {(place, value) for value in values} <= allowed
            assert values == sorted(values, key=int)

    @invariant()
    def nothing_is_open_that_the_coordinator_does_not_know(self) -> None:
        """T6: check that the coordinator has every transaction that is open in a log."""
        known = self.world.machine().transactions.values()
        for place in PLACES:
            topic, index = place.split("-")
            for entry in self.world.partition(place).log.producers.entries.values():
                if entry.current_transaction_first_offset >= 0:
                    assert any(
                        each.producer_id == entry.producer_id and (topic, int(index)) in each.partitions
                        for each in known
                    )

    @invariant()
    def what_is_stored_follows_what_was_stored(self) -> None:
        """T8: check that no decision changes and no epoch decreases."""
        last: dict[str, Any] = {}
        for transactional_id, transaction in self.world.records():
            assert transaction is not None
            before = last.get(transactional_id)
            check_step(before, transaction)
            if before is not None and before.state in PREPARED:
                assert transaction.state.name.removeprefix("COMPLETE") == before.state.name.removeprefix("PREPARE")
            last[transactional_id] = transaction

    def everything_ends(self) -> None:
        """T4, T7: check that each transaction is complete or absent at the end, and that readers reach the log end."""
        for place in (*PLACES, "__transaction_state-0"):
            self.world.reject_appends(place, reject=False)
        self.stores_nothing = False
        self.wait(LONG_S)
        self.wait(0.2)
        for name in IDS:
            assert self.state(name) not in PREPARED
        expected = sorted(each for values in self.committed for each in values)
        found = sorted((place, value) for place, values in self.visible().items() for value in values)
        assert found == expected
        for place in PLACES:
            partition = self.world.partition(place)
            assert partition.end_offset(1) == partition.log.log_end_offset


TestTransactionModel = TransactionModel.TestCase
TestTransactionModel.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)

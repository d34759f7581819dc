"""Two replicas with alternating leadership, against plain lists: records and end offsets that consumers receive.

The model stores the batches of each replica in order, without producer state, indexes or in-sync sets. A batch is
committed if both replicas have it; markers decide which batches are aborted.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwire.cluster.partitions.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.list_offsets import CONSUMER, LATEST, ListOffsetsRequest
from kwire.protocol.records import decode_batch, iterate_headers
from kwire.server.apis.records import list_offsets
from kwire.server.fetching import aborted_lists
from tests.cluster.replication.world import KnownPeers, image, replica
from tests.log.support import batch, marker

PRODUCERS = st.integers(1, 4)
DATA, COMMIT, ABORT = "data", "commit", "abort"


@dataclass(frozen=True)
class Stored:
    """Batch of one record, or a marker; its place in a list is its offset."""

    kind: str
    producer: int | None
    value: bytes


class PartitionModel(RuleBasedStateMachine):
    """Model of brokers 1 and 2, both always in sync."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="kwire-model-"))
        self.names = itertools.count()
        self.sequences: dict[int, int] = {}
        self.stored: dict[int, list[Stored]] = {1: [], 2: []}
        self.known_high_watermark = {1: 0, 2: 0}
        self.epoch = 0
        self.leader_id = 1
        self.seen = 0
        """Highest offset that consumers have read."""

    @initialize()
    def start(self) -> None:
        of = image((1, 2), replicas=(1, 2))
        self.replicas = {broker: replica(self.directory, of, KnownPeers(broker)) for broker in (1, 2)}

    def teardown(self) -> None:
        for each in self.replicas.values():
            each.log.close(clean=False)
        shutil.rmtree(self.directory)

    @property
    def leader(self) -> Partition:
        return self.replicas[self.leader_id]

    @property
    def log(self) -> list[Stored]:
        return self.stored[self.leader_id]

    # --- actions of clients and brokers

    @rule(producer=st.none() | PRODUCERS, count=st.integers(1, 3))
    def produce(self, producer: int | None, count: int) -> None:
        for _ in range(count):
            value = b"%d" % next(self.names)
            more: dict[str, Any] = {}
            if producer is not None:
                sequence = self.sequences.get(producer, 0)
                self.sequences[producer] = sequence + 1
                more = {"producer_id": producer, "producer_epoch": 0, "sequence": sequence, "transactional": True}
            self.leader.append(batch(value, **more), 1)
            self.log.append(Stored(DATA, producer, value))

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end(self, producer: int, is_commit: bool) -> None:
        if not any(each.producer == producer for each in self.log):
            return
        data = bytes(marker(producer, 0, commit=is_commit))
        self.leader.append_marker(data, producer, 0, transaction_version=0)
        self.log.append(Stored(COMMIT if is_commit else ABORT, producer, b"%d" % next(self.names)))

    @rule(times=st.integers(1, 2))
    def replicate(self, times: int) -> None:
        follower_id = 3 - self.leader_id
        follower, leader = self.replicas[follower_id], self.leader
        for _ in range(times):
            end = follower.log.log_end_offset
            leader.follower_fetched(
                follower_id, offset=end, log_start_offset=0, broker_epoch=100 + follower_id, epoch=self.epoch
            )
            self.known_high_watermark[self.leader_id] = max(self.known_high_watermark[self.leader_id], end)
            follower.append_as_follower(
                leader.log.read(end, 2**20),
                leader_epoch=self.epoch,
                high_watermark=leader.high_watermark,
                log_start_offset=0,
            )
            self.stored[follower_id] = list(self.log)
            self.known_high_watermark[follower_id] = self.known_high_watermark[self.leader_id]

    @rule()
    def elect_the_other(self) -> None:
        self.epoch += 1
        self.leader_id = 3 - self.leader_id
        of = image((1, 2), replicas=(1, 2), leader=self.leader_id, leader_epoch=self.epoch, partition_epoch=self.epoch)
        for broker, partition in self.replicas.items():
            partition.update(of, is_led=broker == self.leader_id)
        other_id = 3 - self.leader_id
        other = self.replicas[other_id]
        common = [ours for ours, theirs in zip(self.log, self.stored[other_id], strict=False) if ours == theirs]
        assert len(common) >= other.high_watermark, "what is committed is on both"
        other.truncate_to_leaders_end(len(common))
        self.stored[other_id] = common
        self.sequences = {}
        for each in self.log:
            if each.kind == DATA and each.producer is not None:
                self.sequences[each.producer] = self.sequences.get(each.producer, 0) + 1

    # --- reads of consumers

    @rule()
    def read_uncommitted(self) -> None:
        end = self.leader.end_offset(READ_UNCOMMITTED)
        assert end <= min(len(stored) for stored in self.stored.values()), "both replicas have what is committed"
        self.seen = max(self.seen, end)

    @rule(start=st.integers(0, 30), max_bytes=st.integers(80, 600))
    def read_committed(self, start: int, max_bytes: int) -> None:
        """Read as Kafka's consumer does: skip the records of the aborted transactions that a response lists."""
        limit = self.leader.end_offset(READ_COMMITTED)
        assert limit == self.first_unstable()
        start = offset = min(start, limit)
        taken: list[bytes | None] = []
        while offset < limit:
            data = self.leader.log.read(offset, max_bytes, limit_offset=limit)
            end = max(header.next_offset for _, header in iterate_headers(data))
            named = aborted_lists.aborted_in(self.leader, offset, data)
            assert sorted((each.producer_id, each.first_offset) for each in named) == self.aborted(offset, end)
            waiting = sorted(named, key=lambda each: each.first_offset)
            skipped: set[int] = set()
            for position, header in iterate_headers(data):
                while waiting and waiting[0].first_offset <= header.base_offset:
                    skipped.add(waiting.pop(0).producer_id)
                if header.is_control:
                    skipped.discard(header.producer_id)
                elif header.producer_id not in skipped:
                    taken += (record.value for record in decode_batch(data, position))
            offset = end
        assert taken == self.committed(start, limit)

    @rule()
    def list_the_end(self) -> None:
        """Check that ListOffsets never returns an end below an offset that a consumer has read (KIP-207)."""
        request = ListOffsetsRequest(replica_id=CONSUMER, isolation_level=READ_UNCOMMITTED)
        try:
            _, end, _ = list_offsets._known(self.leader, LATEST, request)
        except KafkaError as rejection:
            assert rejection.code is ErrorCode.OFFSET_NOT_AVAILABLE
            assert self.leader.high_watermark < len(self.log)
            return
        assert end >= self.seen

    @precondition(lambda self: self.epoch > 0)
    @rule()
    def list_the_end_when_all_is_replicated(self) -> None:
        self.replicate(2)
        request = ListOffsetsRequest(replica_id=CONSUMER, isolation_level=READ_UNCOMMITTED)
        assert list_offsets._known(self.leader, LATEST, request)[1] == len(self.log)

    # --- expectations from the lists

    def transactions(self) -> list[tuple[int, int, int, str]]:
        """Return (producer, first offset, marker's offset, outcome) of the leader's transactions; open ones have marker
        -1.
        """
        opened: dict[int, int] = {}
        found = []
        for offset, each in enumerate(self.log):
            if each.producer is None:
                continue
            if each.kind == DATA:
                opened.setdefault(each.producer, offset)
            elif each.producer in opened:
                found.append((each.producer, opened.pop(each.producer), offset, each.kind))
        return found + [(producer, first, -1, "") for producer, first in opened.items()]

    def first_unstable(self) -> int:
        committed = self.known_high_watermark[self.leader_id]
        undecided = [first for _, first, end, _ in self.transactions() if end < 0 or end >= committed]
        return min([committed, *undecided])

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        return sorted(
            (producer, first)
            for producer, first, last, kind in self.transactions()
            if kind == ABORT and first < end and last >= start
        )

    def committed(self, start: int, end: int) -> list[bytes]:
        taken = {
            (producer, offset)
            for producer, first, last, kind in self.transactions()
            if kind == COMMIT
            for offset in range(first, last)
        }
        return [
            each.value
            for offset, each in enumerate(self.log[:end])
            if offset >= start and each.kind == DATA and (each.producer is None or (each.producer, offset) in taken)
        ]

    @invariant()
    def nothing_is_kept_of_what_is_decided_and_replicated(self) -> None:
        """Memory depends on open or unreplicated transactions, not on the log size, on a leader and on a follower."""
        for broker, partition in getattr(self, "replicas", {}).items():
            committed = partition.high_watermark
            markers = sum(each.kind != DATA for each in self.stored[broker][committed:])
            assert len(partition.log.producers._unreplicated) <= markers


PartitionModel.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestPartitionModel = PartitionModel.TestCase

"""Observations of a broker's partitions: their bytes around every batch, and every response that comes from indexes.

The questions follow from the first broker's bytes, and both brokers get them. Many requests are in flight at a time,
and responses come in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from compat_tests.harness.process import BrokerProcess
from compat_tests.harness.waiting import eventually
from compat_tests.log_format.random_data import Partition
from compat_tests.raw.peer import Peer
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.records import decode_all, iterate_headers

WINDOW = 40
EVERYTHING = 16 << 20
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
UNCOMMITTED, COMMITTED = 0, 1


@dataclass(slots=True)
class Questions:
    """Questions about one partition."""

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    epochs: range = range(0)

    @classmethod
    def about(cls, data: bytes, last_epoch: int | None) -> "Questions":
        """Return the questions: offsets around each batch, timestamps around each record, and leader epochs.

        The epochs go up to `last_epoch` or, if it is None, up to the last epoch with records.
        """
        offsets, timestamps = set(), set()
        headers = [header for _, header in iterate_headers(data)]
        if last_epoch is None:
            last_epoch = max((header.partition_leader_epoch for header in headers), default=-1)
        for header in headers:
            offsets |= {header.base_offset, header.last_offset, header.next_offset}
            timestamps |= {header.max_timestamp - 1, header.max_timestamp, header.max_timestamp + 1}
        for record in decode_all(data):
            timestamps |= {record.timestamp, record.timestamp + 1}
        return cls(sorted(offsets), sorted(timestamps), range(last_epoch + 1))


class Observer:
    """Client that asks one broker."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def ask_all(self, requests: Iterable[object], version: int) -> Iterator[Any]:
        waiting = []
        for request in requests:
            self.peer.send(request, version)
            waiting.append((request, version))
            if len(waiting) == WINDOW:
                yield from self.peer.receive_all(waiting)
                waiting = []
        yield from self.peer.receive_all(waiting)

    def is_led(self, partitions: Sequence[Partition]) -> bool:
        return all(self.offset_at(partition, edge)[3] == 0 for partition in partitions for edge in (EARLIEST, LATEST))

    def all_bytes(self, partition: Partition, isolation: int) -> bytes:
        """Return all bytes from the log start offset on, as a consumer receives them."""
        offset, data = self.offset_at(partition, EARLIEST)[1], b""
        while True:
            answer = next(self.fetches(partition, [offset], isolation, EVERYTHING))
            if not answer.records:
                assert answer.error_code == 0, answer
                return data
            part = bytes(answer.records)
            data += part
            offset = max(header.next_offset for _, header in iterate_headers(part))

    def fetches(self, partition: Partition, offsets: list[int], isolation: int, size: int) -> Iterator[Any]:
        wanted = (
            FetchTopic(
                topic=partition.topic,
                partitions=[FetchPartition(partition=partition.index, fetch_offset=offset, partition_max_bytes=size)],
            )
            for offset in offsets
        )
        requests = (
            FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic], isolation_level=isolation) for topic in wanted
        )
        for answer in self.ask_all(requests, 12):
            assert answer.error_code == 0
            yield answer.responses[0].partitions[0]

    def batches_at(self, partition: Partition, offsets: list[int], isolation: int) -> list[tuple]:
        """Return one batch at each offset, with the other fields of its response.

        If the log start lies in a batch of an open transaction, Kafka's last stable offset is that batch's base offset.
        """
        return [
            (
                offset,
                each.error_code,
                each.high_watermark,
                max(each.last_stable_offset, each.log_start_offset),
                each.log_start_offset,
                bytes(each.records or b""),
            )
            for offset, each in zip(offsets, self.fetches(partition, offsets, isolation, 1), strict=True)
        ]

    def aborted_at(self, partition: Partition, offsets: list[int], size: int) -> list[tuple]:
        """Return the aborted transactions in each Fetch response that begin in the returned bytes or before them.

        Brokers return more: Kafka up to the next index entry, kwire up to the last stable offset.
        """
        reported = []
        for offset, each in zip(offsets, self.fetches(partition, offsets, COMMITTED, size), strict=True):
            data = each.records or b""
            end = max((header.next_offset for _, header in iterate_headers(data)), default=0)
            named = {(one.first_offset, one.producer_id) for one in each.aborted_transactions or ()}
            reported.append((offset, each.error_code, len(data), sorted(one for one in named if one[0] < end)))
        return reported

    def offset_at(self, partition: Partition, timestamp: int, isolation: int = UNCOMMITTED) -> tuple:
        return self.offsets_at(partition, [timestamp], isolation)[0]

    def offsets_at(self, partition: Partition, timestamps: list[int], isolation: int = UNCOMMITTED) -> list[tuple]:
        requests = (
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[
                    ListOffsetsTopic(
                        name=partition.topic,
                        partitions=[ListOffsetsPartition(partition_index=partition.index, timestamp=timestamp)],
                    )
                ],
                timeout_ms=5000,
            )
            for timestamp in timestamps
        )
        found = [answer.topics[0].partitions[0] for answer in self.ask_all(requests, 10)]
        return [
            (timestamp, each.offset, each.timestamp, each.error_code)
            # The newest epoch is the leader's own, and brokers begin new epochs.
            + (() if timestamp == LATEST else (each.leader_epoch,))
            for timestamp, each in zip(timestamps, found, strict=True)
        ]

    def epoch_ends(self, partition: Partition, epochs: range) -> list[tuple]:
        requests = (
            OffsetForLeaderEpochRequest(
                topics=[
                    OffsetForLeaderTopic(
                        topic=partition.topic,
                        partitions=[OffsetForLeaderPartition(partition=partition.index, leader_epoch=epoch)],
                    )
                ]
            )
            for epoch in epochs
        )
        found = [answer.topics[0].partitions[0] for answer in self.ask_all(requests, 4)]
        return [
            (epoch, each.error_code, each.leader_epoch, each.end_offset)
            for epoch, each in zip(epochs, found, strict=True)
        ]

    def producers(self, partition: Partition) -> list[tuple]:
        topic = DescribeProducersTopicRequest(name=partition.topic, partition_indexes=[partition.index])
        (found,) = self.peer.ask(DescribeProducersRequest(topics=[topic]), 0).topics[0].partitions
        return sorted(
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in found.active_producers
        )

    def delete_records(self, partition: Partition, offset: int) -> list[tuple]:
        """Delete records; return the response, and the log start offset from ListOffsets and from Fetch."""
        wanted = DeleteRecordsPartition(partition_index=partition.index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=partition.topic, partitions=[wanted])], timeout_ms=5000
        )
        (answer,) = self.peer.ask(request, 2).topics[0].partitions
        start = self.offset_at(partition, EARLIEST)[1]
        around = [max(0, start - 1), start]
        return [
            (offset, answer.error_code, answer.low_watermark, start),
            *self.batches_at(partition, around, UNCOMMITTED),
            *self.epoch_ends(partition, range(3)),
        ]

    def observe(self, partition: Partition, questions: Questions) -> dict[str, object]:
        """Return everything that is compared, by the name that a difference shows."""
        edges = [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL]
        return {
            "bytes": self.all_bytes(partition, UNCOMMITTED),
            "committed bytes": self.all_bytes(partition, COMMITTED),
            "edges": self.offsets_at(partition, edges),
            "committed edges": self.offsets_at(partition, edges, COMMITTED),
            "times": self.offsets_at(partition, questions.timestamps),
            "batches": self.batches_at(partition, questions.offsets, UNCOMMITTED),
            "committed batches": self.batches_at(partition, questions.offsets[::3], COMMITTED),
            "aborted of a batch": self.aborted_at(partition, questions.offsets, 1),
            "aborted of all": self.aborted_at(partition, questions.offsets[::5], EVERYTHING),
            "epochs": self.epoch_ends(partition, questions.epochs),
            "producers": self.producers(partition),
        }


@contextmanager
def observer_of(broker: BrokerProcess, partitions: Sequence[Partition]) -> Iterator[Observer]:
    """Start the broker, wait for leaders, yield an observer, and stop the broker cleanly after success."""
    try:
        broker.start()
        with Peer(broker.bootstrap) as peer:
            observer = Observer(peer)
            eventually(lambda: observer.is_led(partitions), "the broker to lead every partition")
            yield observer
        broker.stop()
    finally:
        broker.kill()


def observe_all(
    observer: Observer, partitions: Sequence[Partition], questions: dict[Partition, Questions]
) -> dict[Partition, dict[str, object]]:
    return {partition: observer.observe(partition, questions[partition]) for partition in partitions}

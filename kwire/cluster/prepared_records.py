"""Metadata records made ready in pieces, so that to write and apply them is one short step.

A batch of records is one operation of the controller: it is written and applied at once or not at all. What takes long,
encoding its records and making the partitions of the images that they lead to, needs neither the offset that they get
nor the image that they change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kwire.chunks import Pieces, at_once, chunks
from kwire.cluster.image import RECORDS_AT_ONCE, MadePartitions, PartitionImage, new_partition
from kwire.cluster.record_versions import NO_FEATURES, encode_record
from kwire.protocol import records as batches
from kwire.protocol.error_codes import EncodeError, ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import PartitionRecord


@dataclass(frozen=True, slots=True)
class PreparedRecords:
    """Records of one batch."""

    changes: Sequence[Any]
    """What an image is to apply: the records, those of new partitions as MadePartitions."""
    count: int
    """Of the records."""
    body: bytearray
    """The batch behind its header."""
    size_in_bytes: int
    """Of the records' values."""

    def __len__(self) -> int:
        return self.count

    def batch(self, *, base_offset: int, epoch: int, timestamp_ms: int) -> bytearray:
        """The batch as the leader of this epoch writes it."""
        header = batches.BatchHeader(
            base_offset=base_offset,
            length=0,
            partition_leader_epoch=epoch,
            magic=2,
            crc=0,
            attributes=0,
            last_offset_delta=self.count - 1,
            base_timestamp=timestamp_ms,
            max_timestamp=timestamp_ms,
            producer_id=batches.NO_PRODUCER_ID,
            producer_epoch=batches.NO_PRODUCER_EPOCH,
            base_sequence=batches.NO_SEQUENCE,
            record_count=self.count,
        )
        return batches.assemble_batch(header, self.body)


def prepare(records: Sequence[Any], features: Mapping[str, int] = NO_FEATURES) -> PreparedRecords:
    """Records as a cluster with these finalised features has them written.

    Raises KafkaError INVALID_REQUEST for what no record can hold.
    """
    return at_once(prepare_in_pieces(records, features))


def prepare_in_pieces(records: Sequence[Any], features: Mapping[str, int]) -> Pieces[PreparedRecords]:
    """As `prepare`, RECORDS_AT_ONCE records at a time."""
    changes: list[Any] = []
    body = bytearray()
    count = size = 0
    try:
        for some in chunks(records, RECORDS_AT_ONCE):
            for record in some:
                value = encode_record(record, features)
                size += len(value)
                batches.encode_record(body, batches.Record(value=value), count, 0)
                count += 1
                if isinstance(record, PartitionRecord):
                    _partitions_of(record.topic_id, changes)[record.partition_id] = new_partition(record)
                else:
                    changes.append(record)
            if len(some) == RECORDS_AT_ONCE:
                yield
    except EncodeError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no record can hold that: {error}") from error
    return PreparedRecords(changes, count, body, size)


def _partitions_of(topic_id: UUID, changes: list[Any]) -> dict[int, PartitionImage]:
    """Where the partitions of a topic go, behind what is to be applied before them."""
    last = changes[-1] if changes else None
    if not isinstance(last, MadePartitions) or last.topic_id != topic_id:
        last = MadePartitions(topic_id, {})
        changes.append(last)
    return last.partitions

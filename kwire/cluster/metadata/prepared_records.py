"""Metadata records prepared in steps, so that writing and applying them is one short step.

A batch of records is written and applied as a whole. The slow part is encoding its records and making the resulting
partition images. It needs neither the records' offsets nor the image that they change, and is done before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.chunks import CHUNK, Pieces, at_once, chunks
from kwire.cluster.metadata.image import (
    ChangedPartitions,
    MadePartitions,
    MetadataImage,
    TopicImage,
    changed_partition,
    new_partition,
)
from kwire.cluster.metadata.record_versions import NO_FEATURES, encode_record
from kwire.protocol import records as batches
from kwire.protocol.error_codes import EncodeError, ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord


@dataclass(frozen=True, slots=True)
class PreparedRecords:
    """Encoded records of one batch, with the changes that they make."""

    changes: Sequence[Any]
    """Input of MetadataImage.apply: PartitionRecords are grouped into MadePartitions and, if the image before is known,
    PartitionChangeRecords into ChangedPartitions. Other records are unchanged."""
    count: int
    """Number of records."""
    body: bytearray
    """Encoded records: the batch without its header."""
    size_in_bytes: int
    """Total size of the records' values."""

    def __len__(self) -> int:
        return self.count

    def batch(self, *, base_offset: int, epoch: int, timestamp_ms: int) -> bytearray:
        """Return the batch as the leader of this epoch writes it."""
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
    """Prepare records for a cluster with these finalised features.

    Raises KafkaError INVALID_REQUEST for a value that no record can hold.
    """
    return at_once(prepare_in_pieces(records, features))


def prepare_in_pieces(
    records: Sequence[Any], features: Mapping[str, int], image: MetadataImage | None = None
) -> Pieces[PreparedRecords]:
    """Do the same as `prepare`, a few records at a time; `image` is the one that the records were planned on."""
    draft = _Draft(image)
    for some in chunks(records):
        draft.add(some, features)
        if len(records) > CHUNK:  # after the last chunk as well: writing the batch is a separate step
            yield
    return draft.finish()


def prepared_with(prepared: PreparedRecords, records: Sequence[Any], features: Mapping[str, int]) -> PreparedRecords:
    """Return prepared records with a few more appended."""
    draft = _Draft(None, prepared)
    draft.add(records, features)
    return draft.finish()


class _Draft:
    """Builder of PreparedRecords."""

    def __init__(self, image: MetadataImage | None, begun: PreparedRecords | None = None) -> None:
        self._image = image
        self._changes: list[Any] = [] if begun is None else list(begun.changes)
        self._body = bytearray() if begun is None else bytearray(begun.body)
        self._count = 0 if begun is None else begun.count
        self._size = 0 if begun is None else begun.size_in_bytes
        self._topic: _ChangedTopic | None = None

    def add(self, records: Sequence[Any], features: Mapping[str, int]) -> None:
        try:
            for record in records:
                value = encode_record(record, features)
                self._size += len(value)
                batches.encode_record(self._body, batches.Record(value=value), self._count, 0)
                self._count += 1
                self._add_change(record)
        except EncodeError as error:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the value does not fit into a metadata record: {error}"
            ) from error

    def _add_change(self, record: Any) -> None:
        """Add the change that an image applies, grouped with adjacent changes of the same topic."""
        if self._image is not None and isinstance(record, PartitionChangeRecord):
            if self._topic is None or self._topic.before.topic_id != record.topic_id:
                self._end_topic()
                self._topic = _ChangedTopic(self._image.topics[self._image.topic_names[record.topic_id]])
            self._topic.add(record)
            return
        self._end_topic()
        if isinstance(record, PartitionRecord):
            last = self._changes[-1] if self._changes else None
            if not isinstance(last, MadePartitions) or last.topic_id != record.topic_id:
                last = MadePartitions(record.topic_id, {})
                self._changes.append(last)
            last.partitions[record.partition_id] = new_partition(record)
        else:
            self._changes.append(record)

    def _end_topic(self) -> None:
        if self._topic is not None:
            self._changes.append(self._topic.finish())
            self._topic = None

    def finish(self) -> PreparedRecords:
        self._end_topic()
        return PreparedRecords(self._changes, self._count, self._body, self._size)


class _ChangedTopic:
    """Builder of adjacent changes of one topic."""

    def __init__(self, before: TopicImage) -> None:
        self.before = before
        self._partitions = list(before.partitions)
        self._records: list[PartitionChangeRecord] = []

    def add(self, record: PartitionChangeRecord) -> None:
        self._records.append(record)
        index = record.partition_id
        self._partitions[index] = changed_partition(self._partitions[index], record)

    def finish(self) -> ChangedPartitions:
        after = dataclasses.replace(self.before, partitions=tuple(self._partitions))
        return ChangedPartitions(self.before, after, self._records)

"""Replay of the metadata log: from batches to images, the same on every node.

The records of a metadata transaction (KIP-868) are applied together when it ends, or never.
"""

from __future__ import annotations

from typing import Any

from kwire.chunks import Pieces
from kwire.cluster.metadata.image import RECORDS_AT_ONCE, MetadataImage
from kwire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    decode_metadata_record,
)
from kwire.protocol.records import batch_body, iterate_headers, iterate_records


class Replay:
    """Owner of the image that results from all batches so far."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._held: list[Any] | None = None
        """Records of a metadata transaction that has not ended."""

    @property
    def is_in_transaction(self) -> bool:
        return self._held is not None

    def restart(self, image: MetadataImage) -> None:
        """Continue from a given image: from a snapshot, or from this node's own records as the leader."""
        self.image = image
        self._held = None

    def feed(self, data: bytes, *, begin: int, end: int) -> Pieces[int]:
        """Apply the batches between two offsets, RECORDS_AT_ONCE records at a time; return the offset after them.

        Raises UnknownRecord or ProtocolError for a record that cannot be applied: the node must stop then.
        """
        complete: list[Any] = []
        offset, complete_to, epoch, taken = begin, -1, 0, 0
        for position, header in iterate_headers(data):
            if header.base_offset < begin or header.next_offset > end:
                continue
            offset = header.next_offset
            if header.is_control:
                continue
            for record in iterate_records(header, batch_body(data, position, header)):
                assert record.value is not None, f"a metadata record at offset {record.offset} without a value"
                self._take(decode_metadata_record(record.value), complete)
                if self._held is None:
                    complete_to, epoch = record.offset, header.partition_leader_epoch
                taken += 1
                if taken % RECORDS_AT_ONCE == 0:
                    yield
        if complete_to >= 0:
            self.image = yield from self.image.apply_in_pieces(complete, offset=complete_to, epoch=epoch)
        return offset

    def _take(self, record: Any, complete: list[Any]) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._held = []
        elif isinstance(record, AbortTransactionRecord):
            self._held = None
        elif isinstance(record, EndTransactionRecord):
            complete += self._held or ()
            self._held = None
        else:
            (complete if self._held is None else self._held).append(record)

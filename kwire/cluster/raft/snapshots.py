"""Snapshots of the metadata log: files that replace all records before an offset (KIP-630).

    00000000000000000042-0000000003.checkpoint    all records below offset 42, the last of which has epoch 3

A snapshot consists of batches, like a log: a control batch that begins with the header, batches of records, and a
control batch with the footer. Offsets count from 0 and have no meaning; every batch has the snapshot's epoch. A file
gets its name when it is complete and durable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kwire.cluster.metadata.record_versions import NO_FEATURES, encode_record
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.raft.control_batches import control_batch, decode_control, snapshot_footer, snapshot_header
from kwire.log.disk import Disk
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.metadata_records import decode_metadata_record
from kwire.protocol.records import InvalidRecordsError, Record, crc_matches, decode_batch, encode_batch, iterate_headers

BATCH_RECORDS_MAX = 1024
"""Maximum records of one batch of a snapshot."""
SUFFIX = ".checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")

ControlMessage = tuple[ControlRecordType, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Content of a snapshot."""

    last_contained_timestamp_ms: int
    """Time at which the last record that the snapshot covers was written."""
    controls: Sequence[ControlMessage]
    """Records with kraft.version and the voters, in a quorum that stores them in its log."""
    records: Sequence[Any]


def file_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def parse_file_name(name: str) -> OffsetAndEpoch | None:
    """Return the id in a file name; None if it is not the name of a complete snapshot."""
    match = _NAME.match(name)
    return OffsetAndEpoch(int(match[1]), int(match[2])) if match else None


def snapshots_in(disk: Disk, directory: str) -> list[OffsetAndEpoch]:
    """Return the ids of the complete snapshots in the metadata log's directory, oldest first."""
    found = (parse_file_name(name) for name in disk.list(directory))
    return sorted(snapshot_id for snapshot_id in found if snapshot_id is not None)


def encode_snapshot(
    records: Iterable[Any],
    *,
    controls: Sequence[ControlMessage] = (),
    epoch: int,
    now_ms: int,
    last_contained_timestamp_ms: int,
    features: Mapping[str, int] = NO_FEATURES,
) -> Iterator[bytes]:
    """Yield the batches of a snapshot one by one, so that a large snapshot need not be in memory at once."""
    first = [snapshot_header(last_contained_timestamp_ms), *controls]
    yield bytes(control_batch(first, base_offset=0, epoch=epoch, timestamp_ms=now_ms))
    offset = len(first)
    rest = iter(records)
    while part := list(islice(rest, BATCH_RECORDS_MAX)):
        stored = [Record(value=encode_record(record, features), timestamp=now_ms) for record in part]
        yield bytes(encode_batch(stored, base_offset=offset, partition_leader_epoch=epoch))
        offset += len(part)
    yield bytes(control_batch([snapshot_footer()], base_offset=offset, epoch=epoch, timestamp_ms=now_ms))


def decode_snapshot(content: bytes) -> Snapshot:
    """Return the content of a snapshot file.

    Raises InvalidRecordsError if it is damaged or does not end with its footer, ProtocolError or UnknownRecordTypeError
    for a record that cannot be read.
    """
    controls: list[ControlMessage] = []
    records: list[Any] = []
    end = 0
    for position, header in iterate_headers(content):
        if not crc_matches(content, position, header):
            raise InvalidRecordsError(f"the batch at byte {position} of a snapshot is damaged")
        end = position + header.size_in_bytes
        for record in decode_batch(content, position):
            if header.is_control:
                controls.append(decode_control(record))
            elif record.value is not None:
                records.append(decode_metadata_record(record.value))
    kinds = [kind for kind, _ in controls]
    if end != len(content) or not kinds or kinds[0] != ControlRecordType.SNAPSHOT_HEADER:
        raise InvalidRecordsError("a snapshot is cut short or has no header")
    if kinds[-1] != ControlRecordType.SNAPSHOT_FOOTER:
        raise InvalidRecordsError("a snapshot has no footer: it was never finished")
    return Snapshot(
        last_contained_timestamp_ms=controls[0][1].last_contained_log_timestamp,
        controls=controls[1:-1],
        records=records,
    )

"""Check of a partition's directory: segments in order with their indexes, then the files derived from them."""

# Paths are plain strings, as everywhere in kwire.log.
# ruff: noqa: PTH118, PTH208

from __future__ import annotations

import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator

from kwire.log.checkpoints import (
    PARTITION_METADATA_FILE,
    CorruptCheckpointError,
    format_partition_metadata,
    parse_epochs,
    parse_partition_metadata,
)
from kwire.log.files import CLEANED_SUFFIX, DELETED_SUFFIX, INDEX_SUFFIXES, SWAP_SUFFIX
from kwire.log.inspection.batches import RECORD_ERRORS, Damage, StoredBatch, records_of, stored_batches
from kwire.log.inspection.dumping import QUORUM_STATE_FILE, base_offset_of, codec_name, json_object, topic_of
from kwire.log.inspection.findings import Finding
from kwire.log.inspection.index_check import OffsetIndexCheck, TimeIndexCheck, TransactionIndexCheck, Transactions
from kwire.log.inspection.payloads import DECODING_ERRORS, decoded_payload
from kwire.log.inspection.reading import InputFile, InspectionError, read_lines_file, read_whole
from kwire.log.leader_epochs import FILE_NAME as LEADER_EPOCH_FILE
from kwire.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kwire.protocol.error_codes import UnknownRecordTypeError
from kwire.protocol.records import BatchHeader, Record

Findings = Iterator[Finding]


class PartitionCheck:
    """Check of one partition's directory; its attributes are used in the check of the log directory."""

    def __init__(self, directory: str, advance: Callable[[int], None], log_start: int | None = None) -> None:
        self.directory = directory
        self.topic = topic_of(os.path.join(directory, "x"))
        self.topic_id: uuid.UUID | None = None
        self.start_offset = 0
        self.end_offset = 0
        self.topic_ids: dict[str, str] = {}
        """Topic ids of existing topics by name, from the metadata log."""
        self._advance = advance
        self._epochs: list[tuple[int, int]] = []
        self._epoch = -1
        self._newest: str | None = None
        self._log_start = log_start
        """Log start offset, below which epochs are removed; None if the log directory's checkpoints are unknown."""
        self._transactions = Transactions()

    def run(self) -> Findings:
        names = sorted(os.listdir(self.directory))
        yield from self._guarded(self._check_epochs, LEADER_EPOCH_FILE, names)
        segments = []
        for name in (name for name in names if name.endswith(".log")):
            try:
                segments.append((base_offset_of(self._path(name)), name))
            except InspectionError as error:
                yield Finding(path=self._path(name), what=_reason(error))
        segments.sort()
        if segments:
            self.start_offset = self.end_offset = segments[0][0]
            self._transactions.start_offset = self.start_offset
        self._newest = segments[-1][1] if segments else None
        for _, name in segments:
            yield from self._guarded(self._check_segment, name, names)
        for name in names:
            yield from self._check_other(name, names)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _guarded(self, check: Callable[[str], Findings], name: str, names: list[str]) -> Findings:
        """Run a check; a file that cannot be read or parsed is one finding."""
        if name not in names:
            return
        try:
            yield from check(name)
        except (InspectionError, CorruptCheckpointError, CorruptSnapshotError, ValueError, OSError) as error:
            yield Finding(path=self._path(name), what=_reason(error))

    # Segments

    def _check_segment(self, name: str) -> Findings:
        path = self._path(name)
        base_offset, is_newest = base_offset_of(path), name == self._newest
        stem = path.removesuffix(".log")
        if base_offset < self.end_offset:
            what = f"the previous segment contains offsets up to {self.end_offset - 1}"
            yield Finding(path=path, what=what, offset=base_offset)
        yield from self._gap(path, base_offset)
        offsets = OffsetIndexCheck(f"{stem}.index", base_offset, is_newest=is_newest)
        times = TimeIndexCheck(f"{stem}.timeindex", base_offset, is_newest=is_newest)
        aborted = TransactionIndexCheck(f"{stem}.txnindex", self._transactions)
        yield from (*offsets.start(), *times.start(), *aborted.start())
        with InputFile(path) as file:
            for found in stored_batches(file):
                if isinstance(found, Damage):
                    # The rest of the file has no batches to compare with the indexes.
                    yield Finding(path=path, what=found.what, position=found.position, offset=self.end_offset)
                    self._advance(file.size - found.position)
                    return
                yield from self._check_batch(file, found, base_offset)
                yield from offsets.batch(found)
                yield from times.batch(file, found)
                yield from self._record_transaction(file, found, aborted)
                self._advance(found.header.size_in_bytes)
        yield from (*offsets.finish(), *times.finish(), *aborted.finish())

    def _gap(self, path: str, offset: int) -> Findings:
        if offset > self.end_offset and not self._transactions.has_gaps:
            self._transactions.has_gaps = True
            what = f"offsets {self.end_offset} to {offset - 1} are missing; normal if the topic is compacted"
            yield Finding(path=path, what=what, offset=self.end_offset, is_wrong=False)
        self.end_offset = max(self.end_offset, offset)

    def _check_batch(self, file: InputFile, batch: StoredBatch, base_offset: int) -> Findings:
        header = batch.header
        whats = [*self._header_flaws(batch, base_offset), *self._epoch_flaws(header)]
        for what in whats:
            yield Finding(path=file.path, what=what, position=batch.position, offset=header.base_offset)
        yield from self._gap(file.path, header.base_offset)
        self.end_offset = max(self.end_offset, header.next_offset)
        if not batch.is_intact:
            return
        try:
            previous = header.base_offset - 1
            for record in records_of(file, batch):
                flaw = self._record_flaw(header, record, previous)
                if flaw is not None:
                    yield Finding(path=file.path, what=flaw, position=batch.position, offset=record.offset)
                previous = record.offset
        except RECORD_ERRORS as error:
            what = f"its records cannot be read: {error}"
            yield Finding(path=file.path, what=what, position=batch.position, offset=header.base_offset)

    def _header_flaws(self, batch: StoredBatch, base_offset: int) -> Iterator[str]:
        header = batch.header
        if not batch.is_intact:
            yield f"the batch's CRC is {header.crc}, that of its bytes {batch.crc_found}"
        if header.base_offset < max(base_offset, self.end_offset):
            yield f"the batch is out of order: offset {max(base_offset, self.end_offset)} is next"
        if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
            yield f"the batch declares {header.record_count} records and last offset delta {header.last_offset_delta}"
        if codec_name(header).startswith("unknown"):
            yield f"the batch's codec is {codec_name(header)}"

    def _epoch_flaws(self, header: BatchHeader) -> Iterator[str]:
        epoch = header.partition_leader_epoch
        if epoch < -1:
            yield f"leader epoch {epoch}"
        if 0 <= epoch < self._epoch:
            yield f"leader epoch {epoch} follows leader epoch {self._epoch}"
        self._epoch = max(self._epoch, epoch)
        found = bisect_right(self._epochs, header.base_offset, key=lambda entry: entry[1])
        if epoch >= 0 and found and self._epochs[found - 1][0] != epoch:
            yield f"leader epoch {epoch}, but {LEADER_EPOCH_FILE} says {self._epochs[found - 1][0]}"
        if (
            epoch >= 0
            and not found
            and self._epochs
            and self._log_start is not None
            and self._log_start <= header.base_offset
        ):
            yield f"leader epoch {epoch}, of which {LEADER_EPOCH_FILE} does not know the start"

    def _record_flaw(self, header: BatchHeader, record: Record, previous: int) -> str | None:
        if not previous < record.offset <= header.last_offset:
            return f"the record is out of order: behind {previous}, in a batch up to {header.last_offset}"
        try:
            decoded = decoded_payload(self.topic, header, record)
        except UnknownRecordTypeError:
            return None
        except DECODING_ERRORS as error:
            return f"the record of {self.topic} cannot be decoded: {error}"
        if decoded is not None:
            self._record_topic(decoded.get("record"), decoded.get("fields"))
        return None

    def _record_topic(self, name: object, fields: object) -> None:
        if not isinstance(fields, dict):
            return
        if name == "TopicRecord":
            self.topic_ids[fields["name"]] = fields["topic_id"]
        elif name == "RemoveTopicRecord":
            self.topic_ids = {topic: each for topic, each in self.topic_ids.items() if each != fields["topic_id"]}

    def _record_transaction(self, file: InputFile, batch: StoredBatch, aborted: TransactionIndexCheck) -> Findings:
        header = batch.header
        if not header.is_transactional or not batch.is_intact:
            return
        if not header.is_control:
            self._transactions.open.setdefault(header.producer_id, header.base_offset)
            return
        try:
            kinds = [(decoded_payload(None, header, record) or {}).get("control") for record in records_of(file, batch)]
        except (*RECORD_ERRORS, *DECODING_ERRORS):
            return  # already reported
        if "ABORT" in kinds:
            yield from aborted.aborted(header.producer_id, header.base_offset)
        else:
            self._transactions.open.pop(header.producer_id, None)

    # Derived files and leftovers

    def _check_other(self, name: str, names: list[str]) -> Findings:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)):
            yield Finding(
                path=self._path(name), what="leftover file: the next start removes or completes it", is_wrong=False
            )
        elif name.endswith(INDEX_SUFFIXES):
            if f"{name.rpartition('.')[0]}.log" not in names:
                yield Finding(path=self._path(name), what="an index without its segment")
        elif name.endswith(".snapshot"):
            yield from self._guarded(self._check_snapshot, name, names)
        elif name.endswith(".checkpoint"):
            yield from self._guarded(lambda each: check_metadata_snapshot(self._path(each), self._advance), name, names)
        elif name == PARTITION_METADATA_FILE:
            yield from self._guarded(self._check_partition_metadata, name, names)
        elif name == QUORUM_STATE_FILE:
            yield from self._guarded(self._check_quorum_state, name, names)

    def _check_epochs(self, name: str) -> Findings:
        self._epochs = parse_epochs(read_lines_file(self._path(name)), self._path(name))
        yield from ()

    def _check_snapshot(self, name: str) -> Findings:
        path = self._path(name)
        offset = base_offset_of(path)
        entries = decode_snapshot(read_whole(path), path)
        if offset > self.end_offset:
            yield Finding(path=path, what=f"the log ends before it, at offset {self.end_offset}", offset=offset)
        if len({entry.producer_id for entry in entries}) != len(entries):
            yield Finding(path=path, what="a producer occurs twice")
        for entry in entries:
            if entry.batches and entry.batches[-1].last_offset >= offset:
                what = f"producer {entry.producer_id} wrote last at offset {entry.batches[-1].last_offset}, behind it"
                yield Finding(path=path, what=what, offset=offset)

    def _check_partition_metadata(self, name: str) -> Findings:
        path = self._path(name)
        data = read_whole(path)
        self.topic_id = parse_partition_metadata(data, path)
        if data.strip() != format_partition_metadata(self.topic_id).strip():
            yield Finding(path=path, what="its format differs from a broker's")

    def _check_quorum_state(self, name: str) -> Findings:
        json_object(read_whole(self._path(name)))
        yield from ()


def check_metadata_snapshot(path: str, advance: Callable[[int], None]) -> Findings:
    """Check a .checkpoint file: intact batches from the snapshot's header to its footer."""
    controls: list[object] = []
    with InputFile(path) as file:
        for found in stored_batches(file):
            if isinstance(found, Damage):
                yield Finding(path=path, what=found.what, position=found.position)
                return
            if not found.is_intact:
                yield Finding(path=path, what="the batch's CRC is wrong", position=found.position)
                continue
            try:
                for record in records_of(file, found):
                    decoded = decoded_payload(topic_of(path), found.header, record) or {}
                    controls = [*controls[:1], decoded.get("control")]
            except UnknownRecordTypeError:
                controls = [*controls[:1], None]
            except (*RECORD_ERRORS, *DECODING_ERRORS) as error:
                yield Finding(path=path, what=f"its records cannot be read: {error}", position=found.position)
            advance(found.header.size_in_bytes)
    if controls != ["SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"]:
        yield Finding(path=path, what="the snapshot lacks its header or footer")


def _reason(error: Exception) -> str:
    """Return an error's message without the path, which a finding contains anyway."""
    first, separator, rest = str(error).partition(": ")
    return rest if separator and first.startswith("/") else str(error)

"""Rows with the content of a file of a log directory, for people and for programs.

A row is a mapping whose first key is "kind". A file whose content does not match its name ends with a row of kind
"damage".
"""

# Paths are plain strings, as everywhere in kwire.log.
# ruff: noqa: PTH100, PTH116, PTH119, PTH120, PTH122

from __future__ import annotations

import json
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kwire.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpointError,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
)
from kwire.log.files import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from kwire.log.inspection.batches import RECORD_ERRORS, Damage, StoredBatch, records_of, stored_batches
from kwire.log.inspection.payloads import METADATA_TOPIC, bytes_as_text, payload
from kwire.log.inspection.reading import InputFile, InspectionError, read_whole
from kwire.log.leader_epochs import FILE_NAME as LEADER_EPOCH_FILE
from kwire.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kwire.properties_files import read_properties
from kwire.protocol.compression import Codec
from kwire.protocol.records import CODEC_MASK, BatchHeader
from kwire.protocol.uuids import uuid_to_text

Row = dict[str, Any]
QUORUM_STATE_FILE: Final = "quorum-state"
META_PROPERTIES_FILE: Final = "meta.properties"
OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)


@dataclass(slots=True, kw_only=True, frozen=True)
class Selection:
    """Selection of the batches to show, and whether to show their records."""

    records: bool = False
    offset: int = 0
    limit: int | None = None
    max_bytes: int | None = None


def files_below(path: str) -> Iterator[str]:
    """Yield the path itself if it is a file, else the files in the directory tree; symbolic links are not followed."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            yield path
            return
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        raise InspectionError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            yield entry.path
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path)


def can_be_dumped(path: str) -> bool:
    return _dumper(path) is not None


def dump_file(path: str, selection: Selection) -> Iterator[Row]:
    """Yield the rows of one file. Raises InspectionError if it cannot be read or its kind is unknown."""
    dumper = _dumper(path)
    if dumper is None:
        raise InspectionError(f"{path}: is not a file of a log directory")
    yield from dumper(path, selection)


def _dumper(path: str) -> Callable[[str, Selection], Iterator[Row]] | None:
    name = os.path.basename(path)
    for suffix in _LEFTOVERS:
        name = name.removesuffix(suffix)
    return _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1])


def base_offset_of(path: str) -> int:
    """Return the offset at the start of a file's name. Raises InspectionError if there is none."""
    stem = os.path.basename(path).partition(".")[0].partition("-")[0]
    if not _DIGITS.fullmatch(stem) or int(stem) >= 2**63:
        raise InspectionError(f"{path}: its name does not begin with an offset")
    return int(stem)


def topic_of(path: str) -> str | None:
    """Return the topic of a file, by its directory's name."""
    name = os.path.basename(path)
    directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
    if name.endswith(".checkpoint"):
        return METADATA_TOPIC
    found = PARTITION_DIRECTORY.match(directory)
    return found["topic"] if found else None


# Batches


def _dump_batches(path: str, selection: Selection) -> Iterator[Row]:
    topic = topic_of(path)
    shown = 0
    with InputFile(path) as file:
        first_position: int | None = None
        for found in stored_batches(file, selection.offset):
            if isinstance(found, Damage):
                yield {"kind": "damage", "position": found.position, "what": found.what}
                return
            first_position = found.position if first_position is None else first_position
            end = found.position + found.header.size_in_bytes
            if shown == selection.limit or (
                selection.max_bytes is not None and end - first_position > selection.max_bytes
            ):
                return
            shown += 1
            yield batch_row(found)
            if selection.records:
                yield from _record_rows(file, found, topic)


def batch_row(batch: StoredBatch) -> Row:
    header = batch.header
    row: Row = {
        "kind": "batch",
        "position": batch.position,
        "size": header.size_in_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "crc": header.crc,
        "crc_is_right": batch.is_intact,
        "magic": header.magic,
        "codec": codec_name(header),
        "partition_leader_epoch": header.partition_leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "has_delete_horizon": header.has_delete_horizon,
    }
    if not batch.is_intact:
        row["crc_found"] = batch.crc_found
    return row


def codec_name(header: BatchHeader) -> str:
    number = header.attributes & CODEC_MASK
    return Codec(number).name.lower() if number <= Codec.ZSTD else f"unknown ({number})"


def _record_rows(file: InputFile, batch: StoredBatch, topic: str | None) -> Iterator[Row]:
    try:
        for record in records_of(file, batch):
            headers = [[_name(name), bytes_as_text(value)] for name, value in record.headers]
            yield {
                "kind": "record",
                "offset": record.offset,
                "timestamp": batch.header.max_timestamp if batch.header.is_log_append_time else record.timestamp,
                **payload(topic, batch.header, record),
                "headers": headers,
            }
    except RECORD_ERRORS as error:
        yield {"kind": "damage", "position": batch.position, "what": f"its records cannot be read: {error}"}


def _name(name: str) -> str | dict[str, str] | None:
    return bytes_as_text(name.encode("utf-8", "surrogateescape"))


# Indexes


def _entries(path: str, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    with InputFile(path) as file:
        for position in range(0, file.size - file.size % layout.size, layout.size):
            yield position, layout.unpack(file.read(position, layout.size))


def _partial_entry(path: str, layout: struct.Struct) -> Iterator[Row]:
    with InputFile(path) as file:
        rest = file.size % layout.size
        if rest:
            yield {"kind": "damage", "position": file.size - rest, "what": f"{rest} bytes are not a whole entry"}


def _dump_index(path: str, selection: Selection) -> Iterator[Row]:
    base = base_offset_of(path)
    for _, (relative, position) in _entries(path, OFFSET_ENTRY):
        if base + relative >= selection.offset:
            yield {"kind": "offset entry", "offset": base + relative, "position": position}
    yield from _partial_entry(path, OFFSET_ENTRY)


def _dump_time_index(path: str, selection: Selection) -> Iterator[Row]:
    base = base_offset_of(path)
    for _, (timestamp, relative) in _entries(path, TIME_ENTRY):
        if base + relative >= selection.offset:
            yield {"kind": "time entry", "timestamp": timestamp, "offset": base + relative}
    yield from _partial_entry(path, TIME_ENTRY)


def _dump_transaction_index(path: str, selection: Selection) -> Iterator[Row]:
    for _, (version, producer_id, first, last, stable) in _entries(path, TRANSACTION_ENTRY):
        if last >= selection.offset:
            yield {
                "kind": "aborted",
                "version": version,
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
    yield from _partial_entry(path, TRANSACTION_ENTRY)


# Small files


def _small(rows: Callable[[bytes, str], Iterator[Row]]) -> Callable[[str, Selection], Iterator[Row]]:
    """Return a dumper of a file that is parsed as a whole; a parse error becomes a row of kind "damage"."""

    def dump(path: str, _: Selection) -> Iterator[Row]:
        data = read_whole(path)
        try:
            yield from rows(data, path)
        except (CorruptCheckpointError, CorruptSnapshotError, ValueError) as error:
            yield {"kind": "damage", "position": 0, "what": str(error).removeprefix(f"{path}: ")}

    return dump


def _snapshot(data: bytes, path: str) -> Iterator[Row]:
    for entry in decode_snapshot(data, path):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "kind": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": last.last_offset if last else -1,
            "offset_delta": last.offset_delta if last else 0,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_transaction_first_offset": entry.current_transaction_first_offset,
        }


def _epochs(data: bytes, path: str) -> Iterator[Row]:
    for epoch, start_offset in parse_epochs(data, path):
        yield {"kind": "epoch", "epoch": epoch, "start_offset": start_offset}


def _offsets(data: bytes, path: str) -> Iterator[Row]:
    for (topic, partition), offset in parse_offsets(data, path).items():
        yield {"kind": "checkpoint", "topic": topic, "partition": partition, "offset": offset}


def _partition_metadata(data: bytes, path: str) -> Iterator[Row]:
    yield {"kind": "partition", "topic_id": uuid_to_text(parse_partition_metadata(data, path))}


def properties(data: bytes) -> dict[str, str]:
    """Parse meta.properties, which is not edited by hand: comments, and one key=value per line."""
    text = data.decode()
    lines = [line for line in text.splitlines() if line.strip() and line[0] not in "#!"]
    if not lines or not all("=" in line for line in lines):
        raise ValueError("a line is not key=value")
    return read_properties(text)


def _properties(data: bytes, _: str) -> Iterator[Row]:
    yield {"kind": "properties", **properties(data)}


def json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`. Raises ValueError for anything else."""
    try:
        content = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 one kind of error for bad content
    return content


def _json(data: bytes, path: str) -> Iterator[Row]:
    yield {"kind": os.path.basename(path).lstrip("."), "content": json_object(data)}


_BY_NAME: Final = {
    LEADER_EPOCH_FILE: _small(_epochs),
    RECOVERY_POINT_FILE: _small(_offsets),
    CLEANER_FILE: _small(_offsets),
    LOG_START_FILE: _small(_offsets),
    HIGH_WATERMARK_FILE: _small(_offsets),
    PARTITION_METADATA_FILE: _small(_partition_metadata),
    META_PROPERTIES_FILE: _small(_properties),
    CLEAN_SHUTDOWN_FILE: _small(_json),
    QUORUM_STATE_FILE: _small(_json),
}
_BY_SUFFIX: Final = {
    ".log": _dump_batches,
    ".checkpoint": _dump_batches,
    ".index": _dump_index,
    ".timeindex": _dump_time_index,
    ".txnindex": _dump_transaction_index,
    ".snapshot": _small(_snapshot),
}

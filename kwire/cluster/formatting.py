"""Formatting: from an empty directory to one that holds a new cluster of one node, as Kafka's storage tool does it.

Written in this order, each durable: bootstrap.checkpoint (the records every new cluster begins with), the first
snapshot of the metadata log (the voter set), meta.properties. A crash between them leaves a directory that is still
blank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kwire.cluster.control_batches import control_batch, quorum_of_one, snapshot_footer, snapshot_header
from kwire.cluster.directory import (
    BOOTSTRAP_CHECKPOINT,
    FIRST_SNAPSHOT,
    META_PROPERTIES,
    MetaProperties,
)
from kwire.cluster.features import FORMATTED
from kwire.log.disk import Disk, DiskFailure
from kwire.log.log_manager import METADATA_DIRECTORY
from kwire.protocol.messages.metadata_records import FeatureLevelRecord, decode_metadata_record, encode_metadata_record
from kwire.protocol.records import Record, decode_all, encode_batch, iterate_headers


def make_durably(disk: Disk, directory: str) -> None:
    """Make a directory and its parents so that no power cut takes the way to what formatting writes."""
    missing: list[str] = []
    path = directory.rstrip("/")
    while path and not disk.is_directory(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    disk.make_directory(directory)
    for made in reversed(missing):
        disk.sync_directory(_parent(made))
    if not missing:
        # Perhaps a start that was cut short made it. A parent that may not be read was not this program's to change.
        with contextlib.suppress(DiskFailure):
            disk.sync_directory(_parent(directory.rstrip("/")))


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def format_directory(
    disk: Disk,
    directory: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: UUID,
    controller_endpoint: tuple[str, str, int],
    now_ms: int,
) -> MetaProperties:
    """Make `directory` the metadata and log directory of a new cluster of one node."""
    disk.make_directory(directory)
    disk.replace(f"{directory}/{BOOTSTRAP_CHECKPOINT}", _bootstrap_checkpoint(now_ms), sync=True)
    metadata = f"{directory}/{METADATA_DIRECTORY}"
    disk.make_directory(metadata)
    voters = quorum_of_one(node_id, directory_id, controller_endpoint)
    disk.replace(f"{metadata}/{FIRST_SNAPSHOT}", _first_snapshot(voters, now_ms), sync=True)
    disk.sync_directory(directory)
    return write_identity(
        disk, directory, MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    )


def write_identity(disk: Disk, directory: str, meta: MetaProperties) -> MetaProperties:
    """Write meta.properties: for the first log directory last of all, for further ones the only file."""
    disk.make_directory(directory)
    disk.replace(f"{directory}/{META_PROPERTIES}", meta.to_bytes(), sync=True)
    return meta


def bootstrap_records(disk: Disk, directory: str) -> list[Any]:
    """The records that a new metadata log begins with."""
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return _default_records()
    content = disk.read(path)
    records: list[Any] = []
    for position, header in iterate_headers(content):
        if not header.is_control:
            batch = content[position : position + header.size_in_bytes]
            records += [decode_metadata_record(record.value) for record in decode_all(batch) if record.value]
    return records


def _default_records() -> list[Any]:
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in FORMATTED.items()]


def _bootstrap_checkpoint(now_ms: int) -> bytes:
    records = [Record(value=encode_metadata_record(record), timestamp=now_ms) for record in _default_records()]
    header = control_batch([snapshot_header(0)], base_offset=0, epoch=0, timestamp_ms=now_ms)
    body = encode_batch(records, base_offset=1, partition_leader_epoch=0)
    footer = control_batch([snapshot_footer()], base_offset=1 + len(records), epoch=0, timestamp_ms=now_ms)
    return bytes(header + body + footer)


def _first_snapshot(voters: Sequence[tuple[Any, Any]], now_ms: int) -> bytes:
    header = control_batch([snapshot_header(now_ms), *voters], base_offset=0, epoch=0, timestamp_ms=now_ms)
    footer = control_batch([snapshot_footer()], base_offset=1 + len(voters), epoch=0, timestamp_ms=now_ms)
    return bytes(header + footer)

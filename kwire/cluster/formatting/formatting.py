"""Formatting of an empty directory for a new cluster, as Kafka's storage tool does it.

The files are written in this order, each durably: bootstrap.checkpoint (the first records of every new cluster), the
first snapshot of the metadata log (the voter set, if it is not configured), meta.properties. A crash between them
leaves a directory that still counts as blank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kwire.cluster.directory import (
    BOOTSTRAP_CHECKPOINT,
    FIRST_SNAPSHOT,
    META_PROPERTIES,
    DirectoryRejected,
    MetaProperties,
)
from kwire.cluster.formatting.initial_controllers import initial_voter
from kwire.cluster.metadata.features import FORMATTED, KRAFT_VERSION_LEVEL
from kwire.cluster.quorum.voters import Listener, ReplicaKey, VoterSet
from kwire.cluster.raft.snapshots import decode_snapshot, encode_snapshot
from kwire.log.disk import Disk, DiskFailure
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.control_records import KRaftVersionRecord
from kwire.protocol.messages.metadata_records import FeatureLevelRecord, UserScramCredentialRecord


def make_durably(disk: Disk, directory: str) -> None:
    """Make a directory and its missing parents durably, so that a power cut cannot remove formatted files."""
    missing: list[str] = []
    path = directory.rstrip("/")
    while path and not disk.is_directory(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    disk.make_directory(directory)
    for made in reversed(missing):
        disk.sync_directory(_parent(made))
    if not missing:
        # An interrupted start may have made it. A parent that is not readable was not made by this program.
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
    """Format `directory` as the metadata and log directory of a new cluster of one node."""
    voter = initial_voter(ReplicaKey(node_id, directory_id), Listener(*controller_endpoint))
    return write_directory(
        disk,
        directory,
        MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id),
        features=FORMATTED,
        voters=VoterSet([voter]),
        now_ms=now_ms,
    )


def write_directory(
    disk: Disk,
    directory: str,
    meta: MetaProperties,
    *,
    features: Mapping[str, int],
    credentials: Sequence[UserScramCredentialRecord] = (),
    voters: VoterSet | None,
    now_ms: int,
) -> MetaProperties:
    """Format a blank directory. `voters` are the initial voters of the metadata log in it, if any."""
    disk.make_directory(directory)
    metadata = f"{directory}/{METADATA_DIRECTORY}"
    if disk.exists(metadata):
        # An interrupted formatting may have written other voters, or none.
        disk.remove_directory(metadata)
    records = [*_feature_records(features), *credentials]
    disk.replace(f"{directory}/{BOOTSTRAP_CHECKPOINT}", _bootstrap_checkpoint(records, now_ms), sync=True)
    if voters is not None:
        disk.make_directory(metadata)
        disk.replace(f"{metadata}/{FIRST_SNAPSHOT}", _first_snapshot(voters, now_ms), sync=True)
    disk.sync_directory(directory)
    return write_identity(disk, directory, meta)


def write_identity(disk: Disk, directory: str, meta: MetaProperties) -> MetaProperties:
    """Write meta.properties: the last file of the first log directory, and the only file of further ones."""
    disk.make_directory(directory)
    disk.replace(f"{directory}/{META_PROPERTIES}", meta.to_bytes(), sync=True)
    return meta


def bootstrap_records(disk: Disk, directory: str) -> list[Any]:
    """Return the records that a new metadata log begins with. Raises DirectoryRejected if they cannot be read."""
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return _feature_records(FORMATTED)
    try:
        return list(decode_snapshot(disk.read(path)).records)
    except (ValueError, ProtocolError) as error:
        raise DirectoryRejected(
            f"log.dirs: {path} cannot be read ({error}); restore it or use another directory"
        ) from None


def _feature_records(features: Mapping[str, int]) -> list[Any]:
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in features.items()]


def _bootstrap_checkpoint(records: Sequence[Any], now_ms: int) -> bytes:
    return b"".join(encode_snapshot(records, epoch=0, now_ms=now_ms, last_contained_timestamp_ms=0))


def _first_snapshot(voters: VoterSet, now_ms: int) -> bytes:
    controls = [
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=KRAFT_VERSION_LEVEL)),
        (ControlRecordType.KRAFT_VOTERS, voters.to_record()),
    ]
    return b"".join(encode_snapshot([], controls=controls, epoch=0, now_ms=now_ms, last_contained_timestamp_ms=now_ms))

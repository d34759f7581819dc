"""Detection of damage in the metadata log, before recovery may truncate it.

Records that a flush has covered were acknowledged. If recovery truncated them, topics and their data would be lost. A
node that finds them changed or missing must therefore not start. Records after the last flush may be lost, torn or out
of order after a power cut, and are truncated.

The end of the flushed part is stored beside the log, in recovery-point-offset-checkpoint, after every flush. That file
is not synced: an older version is still correct, only lower, and a torn version shows that there was a crash. Before
the log is truncated, a lower recovery point is made durable. Apache Kafka writes no such file. Without it, a flaw
counts as damage if whole batches follow it.

Kafka on the same directory does not update the file, and may truncate the log below the recovery point in a later
epoch. The file therefore contains the last epoch of the log; if quorum-state has a later epoch, the log may end before
the recovery point. The file also contains the newest epoch that this software has begun, made durable before
quorum-state is. If quorum-state has another epoch, the file says nothing about the log after the recovery point
either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.quorum.state import load_quorum_state
from kwire.cluster.topic_names import METADATA_TOPIC
from kwire.log.checkpoints import RECOVERY_POINT_FILE, CorruptCheckpointError, read_offsets, write_offsets
from kwire.log.disk import Disk
from kwire.log.files import LOG_SUFFIX, base_offset_of
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD, crc_matches, parse_header

_MAGIC_POSITION = 16
_KEY = (METADATA_TOPIC, 0)
_EPOCH_KEY = ("last-leader-epoch", 0)
"""Line of the file with an epoch in place of an offset. No topic's directory can have this name."""
_BEGUN_KEY = ("begun-leader-epoch", 0)


class _Noted(NamedTuple):
    """Contents of recovery-point-offset-checkpoint."""

    torn_from: float
    """Offset from which a power cut may have torn the log; infinite if it is not known."""
    is_all_there: bool
    """True if every batch below that offset must be in the log, undamaged."""


class _Flaw(NamedTuple):
    """Position where the log's batches end or stop being contiguous."""

    offset: int
    what: str
    """Description of the damage; empty at the end of the log."""
    is_before_end: bool
    """True if whole batches, or segments, follow."""


def store_recovery_point(
    disk: Disk,
    directory: str,
    offset: int,
    *,
    last_epoch: int,
    begun_epoch: int = 0,
    sync: bool = False,
    name: str = RECOVERY_POINT_FILE,
) -> None:
    """Store the recovery point: all records below `offset` are durable. A worker uses another `name`. `sync` is only
    needed before the log is truncated.

    `last_epoch` is the leader epoch of the log's last record, `begun_epoch` the newest epoch that this node knows.
    """
    noted = {_KEY: offset, _EPOCH_KEY: last_epoch, _BEGUN_KEY: begun_epoch}
    write_offsets(disk, f"{directory}/{name}", noted, sync=sync)


def reject_damage(disk: Disk, directory: str) -> None:
    """Raise DirectoryRejected if the log in this directory lacks records that were durable."""
    if not disk.exists(directory):
        return
    noted, flaw = _noted(disk, directory), _flaw(disk, directory)
    if flaw.offset >= noted.torn_from:
        return
    if noted.is_all_there:
        what = f"{flaw.what}, below" if flaw.what else f"{directory} ends at offset {flaw.offset}, before"
        raise _rejection(f"{what} its recovery point {noted.torn_from}")
    if flaw.is_before_end:
        raise _rejection(f"{flaw.what}, before its end")


def _flaw(disk: Disk, directory: str) -> _Flaw:
    names = [name for name in disk.list(directory) if name[20:] == LOG_SUFFIX and base_offset_of(name) is not None]
    end_offset = int(names[0][:20]) if names else 0
    for name in names:
        if int(name[:20]) != end_offset:
            return _Flaw(
                end_offset, f"{directory} has no batch at offset {end_offset}, but a later segment, {name}", True
            )
        data = disk.read(f"{directory}/{name}")
        position, end_offset = _first_flaw(data, end_offset)
        if position < len(data):
            is_before_end = name != names[-1] or _has_batch_behind(data, position)
            return _Flaw(end_offset, f"{directory}/{name} is damaged at byte {position}", is_before_end)
    return _Flaw(end_offset, "", False)


def _rejection(what: str) -> DirectoryRejected:
    return DirectoryRejected(
        f"log.dirs: the metadata log {what}; restore it from a backup: starting without it would delete topics"
    )


def _noted(disk: Disk, directory: str) -> _Noted:
    """Read the checkpoint. A crash may have torn it or prevented its rename; then the log may be torn at any offset."""
    path = f"{directory}/{RECOVERY_POINT_FILE}"
    if not disk.exists(path):
        return _Noted(0, is_all_there=True) if disk.exists(f"{path}.tmp") else _Noted(math.inf, is_all_there=False)
    try:
        noted = read_offsets(disk, path)
    except CorruptCheckpointError:
        return _Noted(0, is_all_there=True)
    recovery_point, last_epoch = noted.get(_KEY, 0), noted.get(_EPOCH_KEY)
    epoch = load_quorum_state(disk, directory).leader_epoch
    if last_epoch is None or epoch <= last_epoch:
        return _Noted(recovery_point, is_all_there=True)
    return _Noted(recovery_point if epoch <= noted.get(_BEGUN_KEY, 0) else math.inf, is_all_there=False)


def _first_flaw(data: bytes, end_offset: int) -> tuple[int, int]:
    """Return (position, offset) after the last whole batch; the first batch begins at end_offset, without gaps."""
    position = 0
    while (end := _batch_end(data, position)) > position:
        header = parse_header(data, position)
        if header.base_offset != end_offset:  # no CRC covers the base offset: a torn write may have left zeros there
            break
        end_offset = header.next_offset
        position = end
    return position, end_offset


def _has_batch_behind(data: bytes, flaw: int) -> bool:
    magic = data.find(b"\x02", flaw + 1 + _MAGIC_POSITION)
    while magic >= 0:
        position = magic - _MAGIC_POSITION
        if _batch_end(data, position) > position:
            return True
        magic = data.find(b"\x02", magic + 1)
    return False


def _batch_end(data: bytes, position: int) -> int:
    """Return the end of the batch at this position; the position itself if there is no whole batch."""
    if position + BATCH_HEADER_BYTES > len(data) or data[position + _MAGIC_POSITION] != 2:
        return position
    header = parse_header(data, position)
    size = header.length + LENGTH_OVERHEAD
    if size < BATCH_HEADER_BYTES or position + size > len(data) or not crc_matches(data, position, header):
        return position
    return position + size

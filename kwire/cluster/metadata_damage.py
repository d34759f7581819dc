"""Looks for damage in the metadata log before recovery may cut anything off.

A write that a crash interrupted leaves a flaw at the very end. A flaw with whole batches behind it is something else:
records that were durable, and answered, have changed. Cutting there would forget topics, and their data with them, so
the node must not start.
"""

from __future__ import annotations

from kwire.cluster.directory import DirectoryRefused
from kwire.log.disk import Disk
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD, crc_matches, parse_header

_MAGIC_POSITION = 16


def refuse_damage(disk: Disk, directory: str) -> None:
    """Raise DirectoryRefused when the log in this directory is flawed anywhere but at its end."""
    if not disk.exists(directory):
        return
    names = [name for name in disk.list(directory) if name.endswith(".log")]
    for name in names:
        data = disk.read(f"{directory}/{name}")
        flaw = _first_flaw(data)
        if flaw < len(data) and (name != names[-1] or _has_batch_behind(data, flaw)):
            raise DirectoryRefused(
                f"log.dirs: the metadata log {directory}/{name} is damaged at byte {flaw}, before its end; "
                "restore it from a backup: starting without what follows would delete topics"
            )


def _first_flaw(data: bytes) -> int:
    position = 0
    while (end := _batch_end(data, position)) > position:
        position = end
    return position


def _has_batch_behind(data: bytes, flaw: int) -> bool:
    magic = data.find(b"\x02", flaw + 1 + _MAGIC_POSITION)
    while magic >= 0:
        position = magic - _MAGIC_POSITION
        if _batch_end(data, position) > position:
            return True
        magic = data.find(b"\x02", magic + 1)
    return False


def _batch_end(data: bytes, position: int) -> int:
    """Where the batch at this position ends; the position itself when there is no whole one."""
    if position + BATCH_HEADER_BYTES > len(data) or data[position + _MAGIC_POSITION] != 2:
        return position
    header = parse_header(data, position)
    size = header.length + LENGTH_OVERHEAD
    if size < BATCH_HEADER_BYTES or position + size > len(data) or not crc_matches(data, position, header):
        return position
    return position + size

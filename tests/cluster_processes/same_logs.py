"""Comparison of replicas after the last write: the batches of their segments must be the same bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

BATCH = struct.Struct(">qii")
"""Base offset, length of the rest, partition leader epoch."""
Batch = tuple[int, int, bytes]
"""(base offset, leader epoch, all bytes after it)."""


def batches(directory: Path) -> Iterator[Batch]:
    """Yield the batches of a partition's directory, in order, without an incomplete one at the end."""
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + BATCH.size <= len(data):
            base_offset, length, leader_epoch = BATCH.unpack_from(data, position)
            end = position + 12 + length
            if length <= 0 or end > len(data):
                break
            yield base_offset, leader_epoch, data[position + BATCH.size : end]
            position = end


def difference(one: Path, other: Path) -> str | None:
    """Return the first difference between two replicas; None if they are equal."""
    start = max(first_offset(one), first_offset(other))
    pairs = zip_longest(*([it for it in batches(each) if it[0] >= start] for each in (one, other)))
    for left, right in pairs:
        if left != right:
            reported = ["nothing" if each is None else f"offset {each[0]} of epoch {each[1]}" for each in (left, right)]
            return f"{reported[0]} against {reported[1]}"
    return None


def first_offset(directory: Path) -> int:
    """Return the base offset of the first segment: a replica that restarted at a new offset may have fewer records."""
    return min((int(path.stem) for path in directory.glob("*.log")), default=0)


def compare_replicas(data: Mapping[int, Path], topics: tuple[str, ...], partitions: int) -> list[str]:
    """Return the differences between the brokers' replicas, by the directories of their records."""
    problems = []
    for name in (f"{topic}-{index}" for topic in topics for index in range(partitions)):
        holders = [broker for broker, directory in data.items() if (directory / name).is_dir()]
        for other in holders[1:]:
            found = difference(data[holders[0]] / name, data[other] / name)
            if found is not None:
                problems.append(f"{name} differs on {holders[0]} and {other}: {found}")
    return problems

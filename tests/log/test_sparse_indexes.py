"""Offset indexes: an entry at least every 64 KiB, so that each search scans a short distance."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kwire.log.config import INDEX_INTERVAL_BYTES_MAX, LogConfig
from kwire.log.partition_log import PartitionLog
from tests.log.support import batch, open_at

SPARSE = LogConfig(index_interval_bytes=2**31 - 1)
BATCH = batch(b"v")
BATCHES = 5 * INDEX_INTERVAL_BYTES_MAX // len(BATCH)


def filled(directory: Path) -> PartitionLog:
    log = open_at(directory, SPARSE)
    for _ in range(BATCHES):
        log.append(BATCH, leader_epoch=0)
    log.roll()
    return log


def gaps(log: PartitionLog) -> list[int]:
    """Return the distances in bytes between the first segment's start, its index entries, and its end."""
    segment = log.segments.first
    segment.load()
    positions = [position for _, position in segment.offset_index.entries()]
    return [after - before for before, after in pairwise([0, *positions, segment.size])]


@pytest.mark.parametrize("is_clean", [False, True])
def test_an_index_entry_is_written_after_64_kib_at_most(tmp_path: Path, is_clean: bool) -> None:
    log = filled(tmp_path)
    assert max(gaps(log)) <= INDEX_INTERVAL_BYTES_MAX + len(BATCH)
    log.close(clean=is_clean)
    again = open_at(tmp_path, SPARSE, clean=is_clean, recovery_point=BATCHES if is_clean else 0)
    assert max(gaps(again)) <= INDEX_INTERVAL_BYTES_MAX + len(BATCH)
    assert len(gaps(again)) == 5

"""Renames of deleted logs, and which of them a sync has made durable."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.log.config import LogConfig
from kwire.log.disk import DiskFullError
from tests.log.faults import FaultyDisk, full
from tests.log.managed import managed
from tests.log.support import surroundings


def test_a_sync_does_not_cover_a_later_rename(tmp_path):
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk))
    deletions = manager.deletions
    for partition in range(2):
        manager.get_or_create("t", partition, LogConfig(), UUID(int=1))
    manager.rename_deleted([("t", 0), ("t", 1)])
    (job,) = deletions.sync_jobs()
    job.run()
    deletions.sync_before_reuse("t", 0)
    manager.get_or_create("t", 0, LogConfig(), UUID(int=2))
    manager.rename_deleted([("t", 0)])
    job.finish()
    assert deletions.has_unsynced
    disk.operations.clear()
    deletions.sync_before_reuse("t", 1)
    assert disk.operations == []
    deletions.sync_before_reuse("t", 0)
    assert disk.operations == [("fsync", str(tmp_path / "d0"))], "the name is used again after this"
    assert not deletions.has_unsynced
    manager.close(clean=False)


def test_a_sync_without_a_descriptor_is_retried(tmp_path):
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk))
    deletions = manager.deletions
    manager.get_or_create("t", 0, LogConfig(), UUID(int=1))
    manager.rename_deleted([("t", 0)])
    disk.fail = lambda operation, path: full(operation, path) if operation == "fsync" else None
    (job,) = deletions.sync_jobs()
    job.run()
    job.finish()
    assert deletions.has_unsynced
    with pytest.raises(DiskFullError):
        deletions.sync_before_reuse("t", 0)
    assert not manager.directories[0].is_offline
    disk.fail = lambda operation, path: None
    deletions.sync()
    assert not deletions.has_unsynced
    manager.close(clean=False)

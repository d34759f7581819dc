"""Logs at start whose topic id is different or lost."""

from __future__ import annotations

import uuid

import pytest

from kwire.log.disk import DiskFullError
from kwire.log.errors import CorruptLogError
from tests.log.faults import FaultyDisk, full
from tests.log.managed import CONFIG, config_of, managed
from tests.log.support import batch, surroundings, values


def test_a_log_that_lost_its_topic_id_in_a_power_cut_begins_empty(tmp_path):
    manager = managed(tmp_path)
    topic_id = uuid.uuid4()
    manager.get_or_create("t", 0, CONFIG, topic_id)
    manager.directories.checkpoint({("t", 0): 10})
    manager.close(clean=False)
    (tmp_path / "d0" / "t-0" / "partition.metadata").write_bytes(b"")  # the rename is durable, the content is not
    again = managed(tmp_path)
    again.load_all(config_of)
    assert again.get_or_create("t", 0, CONFIG, topic_id).topic_id == topic_id
    again.close(clean=False)
    third = managed(tmp_path)
    third.load_all(config_of)
    found = third.get("t", 0)
    assert found is not None
    assert found.topic_id == topic_id
    assert (
        third.directories.checkpointed_high_watermark("t", 0) == 0
    )  # the checkpoint belongs to an earlier topic, or to lost records
    third.close(clean=False)


def test_a_log_that_found_no_space_at_first_is_durable_with_its_first_flush(tmp_path):
    managed(tmp_path).close(clean=True)
    disk, topic_id = FaultyDisk(), uuid.uuid4()
    manager = managed(tmp_path, surroundings(disk))
    manager.load_all(config_of)
    disk.fail = lambda operation, path: full(operation, path) if operation == "create" else None
    with pytest.raises(DiskFullError):
        manager.get_or_create("t", 0, CONFIG, topic_id)
    disk.fail = lambda operation, path: None
    log = manager.get_or_create("t", 0, CONFIG, topic_id)
    log.append(batch(b"a"), leader_epoch=0)
    disk.operations.clear()
    log.flush()
    assert ("fsync", str(tmp_path / "d0")) in disk.operations
    manager.close(clean=False)


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAw\n"])
def test_a_log_without_a_known_topic_id_becomes_a_stray(tmp_path, content, is_loaded):
    manager = managed(tmp_path)
    topic_id = uuid.uuid4()
    log = manager.get_or_create("t", 0, CONFIG, topic_id)
    log.append(batch(b"a"), leader_epoch=0)
    manager.directories.checkpoint({("t", 0): 1})
    manager.close(clean=False)
    (tmp_path / "d0" / "t-0" / "partition.metadata").write_bytes(content)
    again = managed(tmp_path)
    if is_loaded:
        again.load_all(config_of)
    assert values(again.get_or_create("t", 0, CONFIG, topic_id)) == []
    assert again.directories.checkpointed_high_watermark("t", 0) == 0
    (stray,) = (tmp_path / "d0").glob("t-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    again.close(clean=False)


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_id: ?\n", b"version: 9\n"])
def test_a_flushed_log_with_a_damaged_topic_id_stays_closed(tmp_path, content, clean, is_loaded):
    """Durable data must not count as a log of an earlier topic: an empty log in its place would lose the data."""
    manager = managed(tmp_path)
    topic_id = uuid.uuid4()
    log = manager.get_or_create("t", 0, CONFIG, topic_id)
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    manager.directories.checkpoint({("t", 0): 1})
    manager.close(clean=clean)
    path = tmp_path / "d0" / "t-0" / "partition.metadata"
    whole = path.read_bytes()
    path.write_bytes(content)
    again = managed(tmp_path)
    if is_loaded:
        again.load_all(config_of)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match=r"partition\.metadata"):
            again.get_or_create("t", 0, CONFIG, topic_id)
    assert not list((tmp_path / "d0").glob("*-stray"))
    again.close(clean=False)
    path.write_bytes(whole)
    repaired = managed(tmp_path)
    assert values(repaired.get_or_create("t", 0, CONFIG, topic_id)) == [b"a"]
    repaired.close(clean=False)


def test_a_full_truncation_before_the_first_flush_syncs_the_topic_id(tmp_path):
    """The log has a recovery point above 0 without a flush, so a torn file would look like damage to durable data."""
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk))
    log = manager.get_or_create("t", 0, CONFIG, uuid.uuid4())
    disk.operations.clear()
    log.truncate_fully_and_start_at(7)
    assert log.recovery_point == 7
    metadata = str(tmp_path / "d0" / "t-0" / "partition.metadata")
    assert ("fsync", metadata) in disk.operations
    first_removal = next(n for n, each in enumerate(disk.operations) if each[0] == "rename")
    assert disk.operations.index(("fsync", metadata)) < first_removal
    manager.close(clean=False)

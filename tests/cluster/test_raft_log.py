"""Metadata log with snapshots: the quorum's view of it, and starts after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata.prepared_records import prepare
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.raft import snapshots
from kwire.cluster.raft.control_batches import leader_change
from kwire.cluster.raft.metadata_damage import reject_damage
from kwire.cluster.raft.raft_log import RaftLog
from kwire.cluster.raft.snapshots import encode_snapshot
from kwire.cluster.topic_names import METADATA_TOPIC
from kwire.log.checkpoints import RECOVERY_POINT_FILE, read_offsets
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFullError, RealDisk
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ConfigRecord, NoOpRecord, TopicRecord
from kwire.protocol.records import iterate_headers
from tests.log.faults import FaultyDisk, full
from tests.log.support import NOW_MS, ManualClock, open_at, surroundings

DIRECTORY = "__cluster_metadata-0"


def opened(tmp_path: Path, config: LogConfig | None = None, disk: RealDisk | None = None) -> RaftLog:
    disk = disk or RealDisk()
    log = open_at(tmp_path / DIRECTORY, config or LogConfig(retention_ms=-1), surroundings(disk))
    raft_log = RaftLog(log, disk=disk, clock=ManualClock())
    raft_log.open()
    return raft_log


def test_a_record_that_cannot_be_encoded_is_rejected_and_changes_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    long = ConfigRecord(resource_type=2, resource_name="t", name="a", value="x" * 2**15)
    with pytest.raises(KafkaError) as rejected:
        log.append(prepare([NoOpRecord(), long]), 1)
    assert (rejected.value.code, log.end_offset) == (ErrorCode.INVALID_REQUEST, 0)


def test_a_batch_that_followers_could_not_take_in_time_is_rejected(tmp_path: Path) -> None:
    log = opened(tmp_path)
    one = ConfigRecord(resource_type=2, resource_name="t", name="a", value="x" * 32_000)
    with pytest.raises(KafkaError) as rejected:
        log.append(prepare([one] * 263), 1)
    assert (rejected.value.code, log.end_offset) == (ErrorCode.POLICY_VIOLATION, 0)
    log.append(prepare([one] * 262), 1)
    log.append(prepare([one] * 263), 1, bytes_max=2**24)
    assert log.end_offset == 525


def written(tmp_path: Path) -> RaftLog:
    """Return a log with epoch 1 at 0..1, epoch 3 at 2..4, epoch 4 at 5."""
    log = opened(tmp_path)
    log.append_control([leader_change(1)], 1)
    log.append(prepare([NoOpRecord()]), 1)
    log.append_control([leader_change(1)], 3)
    log.append(prepare([NoOpRecord(), NoOpRecord()]), 3)
    log.append_control([leader_change(1)], 4)
    return log


def snapshot(*names: str, epoch: int = 3) -> list[bytes]:
    records = [TopicRecord(name=name) for name in names]
    return list(encode_snapshot(records, epoch=epoch, now_ms=NOW_MS, last_contained_timestamp_ms=NOW_MS))


def test_an_empty_log_begins_at_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert (log.start_offset, log.end_offset, log.flushed_end_offset, log.last_epoch) == (0, 0, 0, 0)
    assert log.end_offset_for_epoch(5) == OffsetAndEpoch(0, 0)
    assert log.read(0, 1000) == b""
    log.close()


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(0, (0, 0)), (1, (2, 1)), (2, (2, 1)), (3, (5, 3)), (4, (6, 4)), (9, (6, 4))],
)
def test_the_end_offset_of_a_leader_epoch(tmp_path: Path, epoch: int, end: tuple[int, int]) -> None:
    log = written(tmp_path)
    assert log.end_offset_for_epoch(epoch) == OffsetAndEpoch(*end)
    assert log.last_epoch == 4
    log.close()


def test_only_a_flush_moves_what_is_durable(tmp_path: Path) -> None:
    log = written(tmp_path)
    assert (log.flushed_end_offset, log.end_offset) == (0, 6)
    job = log.begin_flush()
    log.append(prepare([NoOpRecord()]), 4)
    job.run()
    log.finish_flush(job)
    assert (log.flushed_end_offset, log.end_offset) == (6, 7)
    log.close()


def test_a_cut_is_durable_at_once(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.truncate_to(3)
    # The batch that contains the offset is removed whole.
    assert (log.end_offset, log.flushed_end_offset, log.last_epoch) == (3, 3, 3)
    log.close()
    again = opened(tmp_path)
    assert (again.end_offset, again.last_epoch) == (3, 3)
    again.close()


@pytest.mark.parametrize("cut", ["end", "all"])
def test_a_crash_between_a_cut_and_its_flush_is_no_damage(
    tmp_path: Path, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path)
    log.flush()
    directory = str(tmp_path / DIRECTORY)
    assert recovery_point(directory) == 6
    monkeypatch.setattr(log, "flush", lambda: None)
    if cut == "end":
        log.truncate_to(3)
    else:
        for chunk in snapshot("a"):
            log.append_fetched_chunk(OffsetAndEpoch(4, 4), 1, chunk)
        assert log.install_fetched(OffsetAndEpoch(4, 4)) is not None
    reject_damage(RealDisk(), directory)
    assert recovery_point(directory) <= 3
    log.close()


def recovery_point(directory: str) -> int:
    return read_offsets(RealDisk(), f"{directory}/{RECOVERY_POINT_FILE}")[METADATA_TOPIC, 0]


def test_fetched_records_are_appended_from_the_log_end(tmp_path: Path) -> None:
    leader = written(tmp_path / "leader")
    follower = opened(tmp_path / "follower")
    data = leader.read(0, 1000)
    follower.append_fetched(data[: len(data) // 2])
    assert 0 < follower.end_offset < 6, "whole batches only"
    follower.append_fetched(data)
    assert follower.end_offset == 6
    assert follower.read(0, 1000) == data
    leader.close()
    follower.close()


def changed(data: bytes, position: int) -> bytes:
    content = bytearray(data)
    content[position] ^= 1
    return bytes(content)


def test_damaged_batches_gaps_and_older_epochs_are_not_taken(tmp_path: Path) -> None:
    leader = written(tmp_path / "leader")
    follower = opened(tmp_path / "follower")
    data = leader.read(0, 1000)
    second = [position for position, _ in iterate_headers(data)][1]
    for bad in (changed(data, 70), data[second:], b"\0" * 70):
        follower.append_fetched(bad)
        assert follower.end_offset == 0
    follower.append_control([leader_change(1)], 7)
    follower.append_fetched(data[second:])
    assert (follower.end_offset, follower.last_epoch) == (1, 7)
    leader.close()
    follower.close()


def test_a_full_disk_is_logged_once_while_fetches_are_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    leader = written(tmp_path / "leader")
    disk = FaultyDisk()
    follower = opened(tmp_path / "follower", disk=disk)
    data = leader.read(0, 1000)
    disk.fail = full
    for _ in range(5):
        follower.append_fetched(data)
    assert follower.end_offset == 0
    (reported,) = caplog.records
    assert "The disk is full" in reported.message
    disk.fail = lambda operation, path: None
    follower.append_fetched(data)
    assert follower.end_offset == leader.end_offset
    leader.close()
    follower.close()


def test_the_log_before_a_snapshot_is_removed(tmp_path: Path) -> None:
    small = LogConfig(retention_ms=-1, segment_bytes=150)
    log = opened(tmp_path, small)
    for _ in range(20):
        log.append(prepare([NoOpRecord()]), 2)
    log.flush()
    snapshot_id = OffsetAndEpoch(15, 2)
    log.write_snapshot(snapshot_id, snapshot("a", epoch=2))
    log.write_snapshot(snapshot_id, snapshot("a", epoch=2))
    log.clean_before(snapshot_id)
    assert (log.start_offset, log.end_offset) == (15, 20)
    assert not list((tmp_path / DIRECTORY).glob("*.deleted"))
    assert log.earliest_snapshot_id == log.latest_snapshot_id == snapshot_id
    assert log.end_offset_for_epoch(1) == snapshot_id
    assert log.snapshot_size(OffsetAndEpoch(15, 1)) is None
    log.close()
    again = opened(tmp_path, small)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (15, 20, 2)
    assert [record.name for record in again.load_snapshot(snapshot_id).records] == ["a"]
    whole = b"".join(snapshot("a", epoch=2))
    assert again.snapshot_size(snapshot_id) == len(whole)
    assert again.read_snapshot(snapshot_id, 10, 1000) == whole[10:]
    again.close()


def test_a_fetched_snapshot_takes_the_place_of_the_log(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.flush()
    snapshot_id = OffsetAndEpoch(100, 8)
    data = b"".join(snapshot("a", "b"))
    log.append_fetched_chunk(snapshot_id, 0, b"what another fetch began")
    for position in range(0, len(data), 64):
        log.append_fetched_chunk(snapshot_id, position, data[position : position + 64])
    installed = log.install_fetched(snapshot_id)
    assert installed is not None
    assert [record.name for record in installed.records] == ["a", "b"]
    assert (log.start_offset, log.end_offset, log.flushed_end_offset, log.last_epoch) == (100, 100, 100, 8)
    log.append_control([leader_change(1)], 9)
    log.close()
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.latest_snapshot_id) == (100, 101, snapshot_id)
    again.close()


def test_an_unsound_snapshot_is_dropped(tmp_path: Path) -> None:
    log = written(tmp_path)
    data = b"".join(snapshot("a"))
    log.append_fetched_chunk(OffsetAndEpoch(100, 8), 0, changed(data, len(data) // 2))
    assert log.install_fetched(OffsetAndEpoch(100, 8)) is None
    assert (log.start_offset, log.end_offset, log.latest_snapshot_id) == (0, 6, None)
    assert not list((tmp_path / DIRECTORY).glob("*.part"))
    log.close()


def test_a_crash_between_a_fetched_snapshot_and_the_logs_new_beginning(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.flush()
    log.close()
    name = snapshots.file_name(OffsetAndEpoch(100, 8))
    (tmp_path / DIRECTORY / name).write_bytes(b"".join(snapshot("a")))
    (tmp_path / DIRECTORY / "00000000000000000200-0000000009.checkpoint.part").write_bytes(b"half")
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (100, 100, 8)
    assert not list((tmp_path / DIRECTORY).glob("*.part"))
    again.close()


def test_a_log_without_the_snapshot_before_it_is_rejected(tmp_path: Path) -> None:
    small: Any = LogConfig(retention_ms=-1, segment_bytes=150)
    log = opened(tmp_path, small)
    for _ in range(20):
        log.append(prepare([NoOpRecord()]), 2)
    log.flush()
    log.write_snapshot(OffsetAndEpoch(15, 2), snapshot("a", epoch=2))
    log.clean_before(OffsetAndEpoch(15, 2))
    log.close()
    (tmp_path / DIRECTORY / snapshots.file_name(OffsetAndEpoch(15, 2))).unlink()
    with pytest.raises(DirectoryRejected, match="no snapshot of what came before"):
        opened(tmp_path, small)


def test_a_half_fetched_snapshot_does_not_outlive_the_log(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.append_fetched_chunk(OffsetAndEpoch(100, 8), 0, b"half")
    log.close()
    assert len(list((tmp_path / DIRECTORY).glob("*.part"))) == 1
    again = opened(tmp_path)
    assert not list((tmp_path / DIRECTORY).glob("*.part"))
    assert (again.end_offset, again.latest_snapshot_id, again.age_ms) == (6, None, 0)
    again.close()


def test_fetched_records_that_are_already_stored_change_nothing(tmp_path: Path) -> None:
    log = written(tmp_path)
    for data in (b"", log.read(0, 1000), log.read(5, 1000)[:-1]):
        log.append_fetched(data)
        assert (log.end_offset, log.last_epoch) == (6, 4)
    log.close()


@pytest.mark.parametrize("lacking", ["rename", "fsync"], ids=["space", "a descriptor"])
def test_a_snapshot_that_finds_no_space_for_its_name_is_fetched_again(tmp_path: Path, lacking: str) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    log.append(prepare([NoOpRecord()]), 1)
    snapshot_id, data = OffsetAndEpoch(100, 8), b"".join(snapshot("a"))
    log.append_fetched_chunk(snapshot_id, 0, data)
    disk.fail = lambda operation, path: (
        full(operation, path) if operation == lacking and (lacking == "rename" or path.endswith(DIRECTORY)) else None
    )
    with pytest.raises(DiskFullError):
        log.install_fetched(snapshot_id)
    assert (log.end_offset, log.latest_snapshot_id) == (1, None)
    assert not list((tmp_path / DIRECTORY).glob(f"{snapshot_id.offset:020}*"))
    disk.fail = lambda operation, path: None
    log.append_fetched_chunk(snapshot_id, 0, data[:50])
    log.append_fetched_chunk(snapshot_id, 50, data[50:])
    assert log.install_fetched(snapshot_id) is not None
    assert (log.start_offset, log.end_offset, log.latest_snapshot_id) == (100, 100, snapshot_id)
    log.close()


def test_a_snapshot_that_was_there_stays_when_there_is_no_space_to_begin_behind_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    for _ in range(6):
        log.append(prepare([NoOpRecord()]), 3)
    log.flush()
    snapshot_id, chunks = OffsetAndEpoch(4, 3), snapshot("a")
    log.write_snapshot(snapshot_id, chunks)
    log.append_fetched_chunk(snapshot_id, 0, b"".join(chunks))
    disk.fail = lambda operation, path: full(operation, path) if RECOVERY_POINT_FILE in path else None
    with pytest.raises(KafkaError):
        log.install_fetched(snapshot_id)
    disk.fail = lambda operation, path: None
    assert (log.start_offset, log.end_offset, log.latest_snapshot_id) == (0, 6, snapshot_id)
    assert [record.name for record in log.load_snapshot(snapshot_id).records] == ["a"]
    log.close()


def noted_of(tmp_path: Path) -> dict[tuple[str, int], int]:
    return read_offsets(RealDisk(), str(tmp_path / DIRECTORY / RECOVERY_POINT_FILE))


def test_a_worker_writes_the_recovery_point_beside_the_one_that_counts(tmp_path: Path) -> None:
    """Meanwhile the loop may write the recovery point for a new epoch, or before a truncation."""
    log = opened(tmp_path)
    log.append(prepare([NoOpRecord()]), 1)
    job = log.begin_flush()
    job.run()
    before = noted_of(tmp_path)
    log.note_durable(job)
    assert noted_of(tmp_path) == before
    log.finish_flush(job)
    log.finish_noting()
    assert noted_of(tmp_path)[METADATA_TOPIC, 0] == 1
    log.close()


def test_a_recovery_point_from_before_a_new_epoch_or_truncation_is_dropped(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for change in (lambda: log.begin_epoch(9), lambda: log.truncate_to(0)):
        log.append(prepare([NoOpRecord()]), 1)
        job = log.begin_flush()
        job.run()
        log.note_durable(job)
        change()
        changed = noted_of(tmp_path)
        log.finish_flush(job)
        log.finish_noting()
        assert noted_of(tmp_path) == changed
        assert changed["begun-leader-epoch", 0] == 9
        assert not list((tmp_path / DIRECTORY).glob("*.staged"))
    log.close()

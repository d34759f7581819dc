"""A full disk: the operation fails, no data is lost, reads continue, and writes work again once there is space."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kwire.log.batch_validation import AppendOrigin, check_frame
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.index_memory import IndexMemory
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshots import ProducerSnapshots
from kwire.log.rejected_batches import PRODUCERS_MAX, RejectedBatches
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import with_offsets
from kwire.protocol.wrapping import SEQUENCE_MAX
from tests.log.faults import FaultyDisk, full
from tests.log.searching import offset_for_timestamp
from tests.log.support import NOW_MS, ManualClock, batch, marker, open_at, retain, surroundings, values
from tests.support.compiled import replaces_methods

CONFIG = LogConfig(index_interval_bytes=1, segment_bytes=2000, file_delete_delay_ms=0)
WRITES = ("append", "replace", "create")


class Scene:
    """A log with four records, on a disk that can be full for some files."""

    def __init__(self, directory: str, config: LogConfig = CONFIG) -> None:
        self.directory = directory
        self.config = config
        self.disk = FaultyDisk()
        self.clock = ManualClock()
        self.manager = self.managed()
        self.log = self.manager.get_or_create("t", 0, config, None)
        self.sent = 0
        for _ in range(4):
            self.append()

    def managed(self) -> LogManager:
        return LogManager([self.directory], surroundings(self.disk, self.clock))

    def append(self) -> None:
        self.log.append(self.next_batch(), leader_epoch=0)
        self.sent += 1

    def next_batch(self) -> bytearray:
        return batch(b"%d" % self.sent, producer_id=1, producer_epoch=0, sequence=self.sent)

    def fill(self, *names: str) -> None:
        """Fail with a full disk for files whose path contains one of these names."""
        self.disk.fail = lambda operation, path: (
            full(operation, path) if operation in WRITES and any(name in path for name in names) else None
        )

    def make_space(self) -> None:
        self.disk.fail = lambda operation, path: None

    def reopened(self, *, clean: bool) -> PartitionLog:
        self.manager.close(clean=clean)
        self.manager = self.managed()
        self.manager.load_all(lambda _: self.config)
        log = self.manager.get("t", 0)
        assert log is not None
        self.log = log
        return log

    def expect_all(self) -> None:
        assert self.log.failure is None
        assert self.manager.directories[0].failure is None
        assert values(self.log) == [b"%d" % number for number in range(self.sent)]


@pytest.fixture
def scene(tmp_path) -> Scene:
    return Scene(str(tmp_path / "d"))


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("producer_id", [1, 2])
def test_later_batches_are_rejected_until_the_batch_without_space_is_resent(scene: Scene, producer_id: int) -> None:
    """The wait has no time limit: a client may send more batches before it receives the error of the first one."""
    first = scene.sent if producer_id == 1 else 0
    batches = [
        batch(b"%d" % (scene.sent + number), producer_id=producer_id, producer_epoch=0, sequence=first + number)
        for number in range(3)
    ]
    scene.fill(".log")
    assert code_of(lambda: scene.log.append(batches[0], leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(lambda: scene.log.append(batches[1], leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    scene.make_space()
    scene.log.health.space_found()  # as the check of free space calls it
    assert code_of(lambda: scene.log.append(batches[2], leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    repeated = batch(b"3", producer_id=1, producer_epoch=0, sequence=3)
    assert scene.log.append(repeated, leader_epoch=0).is_duplicate
    for each in batches:
        scene.log.append(each, leader_epoch=0)
        scene.sent += 1
    assert scene.log.append(batches[0], leader_epoch=0).is_duplicate
    scene.expect_all()


def numbered(producer_id: int, epoch: int, sequence: int) -> bytes:
    return bytes(batch(b"x", producer_id=producer_id, producer_epoch=epoch, sequence=sequence))


@pytest.mark.parametrize("producer_id", [1, 2])
@pytest.mark.parametrize("later", [1, 5])
def test_a_client_that_skips_rejected_batches_is_soon_accepted_again(
    scene: Scene, producer_id: int, later: int
) -> None:
    """The client resends a later batch of those rejected, or more batches than it may have in flight."""
    first = scene.sent if producer_id == 1 else 0

    def code(sequence: int) -> ErrorCode:
        try:
            scene.log.append(numbered(producer_id, 0, sequence), leader_epoch=0)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    full_disk = ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(2):
        scene.fill(".log")
        assert [code(first + number) for number in (0, 1, 2, 3, 4)] == [full_disk] * 5
        scene.make_space()
    judged = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if producer_id == 1 else ErrorCode.NONE
    assert code(first + later) is judged, "as if nothing had been rejected"


def test_a_rejected_batch_blocks_only_its_producer_epoch_and_transaction(scene: Scene) -> None:
    def reject(epoch: int, sequence: int) -> None:
        scene.fill(".log")
        assert code_of(lambda: append(epoch, sequence)) is ErrorCode.KAFKA_STORAGE_ERROR
        scene.make_space()

    def append(epoch: int, sequence: int) -> None:
        scene.log.append(numbered(2, epoch, sequence), leader_epoch=0)

    append(0, 0)
    reject(0, 1)
    append(1, 0)  # a newer epoch gives up the rejected batch of the previous one
    append(1, 1)
    reject(1, 2)
    scene.log.append(marker(2, 1, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    assert code_of(lambda: append(1, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_stored_by_another_leader_end_the_wait_for_a_rejected_batch(scene: Scene) -> None:
    scene.fill(".log")
    assert code_of(lambda: scene.log.append(numbered(2, 0, 0), leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    scene.make_space()
    later = numbered(2, 0, 50)
    stored = with_offsets(later, 4, check_frame(later).length, 1)
    scene.log.append(stored, leader_epoch=1, origin=AppendOrigin.REPLICATION)
    assert scene.log.append(numbered(2, 0, 51), leader_epoch=2).base_offset == 5


def test_sequences_begin_again_behind_a_rejected_batch(scene: Scene) -> None:
    scene.log.append(numbered(2, 0, SEQUENCE_MAX - 1), leader_epoch=0)
    scene.fill(".log")
    assert code_of(lambda: scene.log.append(numbered(2, 0, SEQUENCE_MAX), leader_epoch=0)) is (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
    scene.make_space()
    assert code_of(lambda: scene.log.append(numbered(2, 0, 0), leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    for sequence in (SEQUENCE_MAX, 0):
        scene.log.append(numbered(2, 0, sequence), leader_epoch=0)


def test_the_number_of_producers_with_rejected_batches_is_bounded() -> None:
    rejected = RejectedBatches()
    for producer_id in range(PRODUCERS_MAX + 1):
        rejected.record_disk_full(check_frame(numbered(producer_id, 0, 0)))
    rejected.check(check_frame(numbered(0, 0, 1)))
    for producer_id in (1, PRODUCERS_MAX):
        following = check_frame(numbered(producer_id, 0, 1))
        assert code_of(partial(rejected.check, following)) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("clean", [True, False])
def test_an_append_is_rejected_and_repeated_when_there_is_space(scene, clean):
    scene.fill(".log")
    assert code_of(lambda: scene.log.append(scene.next_batch(), leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    scene.expect_all()
    scene.make_space()
    scene.append()
    scene.expect_all()
    scene.reopened(clean=clean)
    scene.expect_all()


@pytest.mark.parametrize("name", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_roll_without_space_for_derived_files_succeeds(scene, name, clean):
    scene.fill(name)
    scene.log.roll()
    scene.append()
    scene.log.flush()
    assert scene.log.recovery_point == scene.sent
    scene.make_space()
    scene.append()
    scene.reopened(clean=clean)
    scene.expect_all()
    assert scene.log.producers.entries[1].batches[-1].last_sequence == scene.sent - 1
    found = offset_for_timestamp(scene.log, scene.clock.now_ms)
    assert found is not None
    assert found.offset == 0


def test_a_segment_that_cannot_be_made_leaves_the_old_one_active(scene):
    scene.disk.fail = lambda operation, path: full(operation, path) if operation == "create" else None
    assert code_of(scene.log.roll) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(scene.log.segments) == 1
    scene.make_space()
    scene.append()
    scene.log.roll()
    scene.append()
    assert len(scene.log.segments) == 2
    scene.reopened(clean=False)
    scene.expect_all()


def test_leader_epochs_without_disk_space_delay_only_the_flush(scene):
    scene.log.flush()
    scene.fill("leader-epoch")
    scene.log.append(scene.next_batch(), leader_epoch=7)
    scene.sent += 1
    with pytest.raises(DiskFullError):
        scene.log.flush()
    assert scene.log.recovery_point == 4
    scene.expect_all()
    scene.make_space()
    scene.log.flush()
    assert scene.log.recovery_point == 5
    assert scene.reopened(clean=False).leader_epochs.entries() == [(0, 0), (7, 4)]


def test_aborted_transactions_without_disk_space_stay_in_memory_until_written(scene):
    transactional = batch(b"t", producer_id=2, producer_epoch=0, sequence=0, transactional=True)
    scene.log.append(transactional, leader_epoch=0)
    scene.fill(".txnindex")
    scene.log.append(marker(2, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    assert len(scene.log.aborted_transactions(0, 10)) == 1
    with pytest.raises(DiskFullError):
        scene.log.flush()
    scene.make_space()
    scene.log.flush()
    assert len(scene.reopened(clean=False).aborted_transactions(0, 10)) == 1


def test_a_roll_leaves_aborted_transactions_that_cannot_be_written_to_a_later_flush(scene, caplog):
    transactional = batch(b"t", producer_id=2, producer_epoch=0, sequence=0, transactional=True)
    scene.log.append(transactional, leader_epoch=0)
    scene.fill(".txnindex")
    scene.log.append(marker(2, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    scene.log.roll()
    assert "the next flush tries again" in caplog.text
    assert len(scene.log.aborted_transactions(0, 10)) == 1
    scene.make_space()
    scene.log.flush()
    assert len(scene.reopened(clean=True).aborted_transactions(0, 10)) == 1


def test_a_cut_is_whole_although_aborted_transactions_cannot_be_written(scene):
    """Otherwise the log end offset would stay above the truncated records."""
    transactional = batch(b"t", producer_id=2, producer_epoch=0, sequence=0, transactional=True)
    scene.log.append(transactional, leader_epoch=0)
    scene.fill(".txnindex")
    scene.log.append(marker(2, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    scene.append()
    scene.append()
    scene.log.truncate_to(7)
    assert (scene.log.log_end_offset, scene.log.segments.active.next_offset()) == (7, 7)
    assert len(scene.log.aborted_transactions(0, 10)) == 1
    scene.make_space()
    assert scene.log.append(batch(b"next"), leader_epoch=1).base_offset == 7
    scene.log.flush()
    assert len(scene.reopened(clean=False).aborted_transactions(0, 10)) == 1


@replaces_methods
def test_a_cut_that_finds_no_space_half_way_takes_the_log_offline(scene, monkeypatch):
    def fails(snapshots, offset):
        raise full("create", f"{scene.log.directory}/x")

    monkeypatch.setattr(ProducerSnapshots, "remove_from", fails)
    with pytest.raises(DiskFailure):
        scene.log.truncate_to(2)
    assert isinstance(scene.log.failure, DiskFailure)


def test_a_rebuilt_index_without_disk_space_is_dropped(tmp_path):
    log = open_at(tmp_path, CONFIG)
    for number in range(100):
        log.append(batch(b"%d" % number), leader_epoch=0)
    log.flush()
    log.close(clean=True)
    for path in tmp_path.glob("*index"):
        path.unlink()
    disk = FaultyDisk()
    disk.fail = lambda operation, path: full(operation, path) if path.endswith("index") else None
    log = open_at(tmp_path, CONFIG, replace(surroundings(disk), indexes=IndexMemory(0)), clean=True, recovery_point=100)
    assert values(log) == [b"%d" % number for number in range(100)]
    assert sum(segment.is_loaded for segment in list(log.segments)[:-1]) == 1


def test_an_index_that_is_not_written_yet_stays_in_memory(tmp_path):
    disk = FaultyDisk()
    log = open_at(tmp_path, CONFIG, replace(surroundings(disk), indexes=IndexMemory(0)))
    disk.fail = lambda operation, path: full(operation, path) if path.endswith("index") else None
    for number in range(100):
        log.append(batch(b"%d" % number), leader_epoch=0)
    closed = list(log.segments)[:-1]
    assert len(closed) > 2
    assert all(segment.is_loaded and segment.has_pending_entries for segment in closed)
    disk.fail = lambda operation, path: None
    log.flush()
    assert values(log) == [b"%d" % number for number in range(100)]
    assert sum(segment.is_loaded for segment in closed) == 1


def test_a_close_that_finds_no_space_is_not_clean(scene, caplog):
    scene.fill("leader-epoch")
    scene.log.append(scene.next_batch(), leader_epoch=1)
    scene.sent += 1
    scene.manager.close(clean=True)
    assert "not closed cleanly" in caplog.text
    assert not scene.disk.exists(f"{scene.directory}/.kafka_cleanshutdown")
    scene.make_space()
    scene.reopened(clean=False)
    scene.expect_all()
    assert scene.log.leader_epochs.latest_epoch == 1


def test_a_clean_shutdown_file_that_cannot_be_written_costs_a_scan(scene, caplog):
    scene.fill(".kafka_cleanshutdown")
    scene.manager.close(clean=True)
    assert "next start recovers" in caplog.text
    scene.make_space()
    scene.reopened(clean=False)
    scene.expect_all()


def test_retention_that_needs_a_new_segment_waits_for_space(scene, caplog):
    scene.log.update_config(LogConfig(retention_ms=1, file_delete_delay_ms=0))
    scene.clock.now_ms += 10
    scene.disk.fail = lambda operation, path: full(operation, path) if operation == "create" else None
    retain(scene.manager)
    assert "Retention leaves t-0 as it is" in caplog.text
    scene.expect_all()
    scene.make_space()
    retain(scene.manager)
    assert scene.log.log_start_offset == 4


def test_a_truncation_fails_if_the_recovery_point_cannot_be_written(scene):
    scene.log.flush()
    scene.fill("recovery-point")
    assert code_of(lambda: scene.log.truncate_to(2)) is ErrorCode.KAFKA_STORAGE_ERROR
    scene.expect_all()
    scene.make_space()
    scene.log.truncate_to(2)
    scene.sent = 2
    scene.expect_all()


def test_a_cut_for_which_there_was_no_space_before_is_no_damage_after_a_crash(scene, tmp_path):
    scene.log.flush()
    scene.manager.directories.checkpoint({})
    scene.fill("recovery-point")
    assert code_of(lambda: scene.log.truncate_to(2)) is ErrorCode.KAFKA_STORAGE_ERROR
    scene.make_space()
    scene.log.truncate_to(2)
    for sequence in (2, 3):  # written by the next leader, and not flushed
        scene.log.append(batch(b"new", producer_id=1, producer_epoch=0, sequence=sequence), leader_epoch=1)
    crashed = str(tmp_path / "crashed")
    shutil.copytree(scene.directory, crashed)
    stored = Path(crashed, "t-0", f"{0:020}.log")
    stored.write_bytes(stored.read_bytes()[:-10])
    manager = LogManager([crashed], surroundings(FaultyDisk(), scene.clock))
    manager.load_all(lambda _: CONFIG)
    log = manager.get("t", 0)
    assert log is not None
    assert log.failure is None
    assert values(log) == [b"0", b"1", b"new"]
    manager.close(clean=False)


def test_a_checkpoint_without_space_is_logged_once(scene, caplog):
    scene.fill("replication-offset")
    for _ in range(3):
        scene.manager.directories.checkpoint({})
    assert caplog.text.count("replication-offset-checkpoint stays as it was") == 1
    scene.make_space()
    scene.manager.directories.checkpoint({})
    scene.fill("replication-offset")
    scene.manager.directories.checkpoint({})
    assert caplog.text.count("replication-offset-checkpoint stays as it was") == 2


def test_a_log_is_not_made_without_space_and_made_later(scene, caplog):
    scene.fill("partition.metadata")
    topic_id = scene.manager._surroundings.random_source.uuid()
    assert code_of(lambda: scene.manager.get_or_create("u", 0, CONFIG, topic_id)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert scene.manager.get("u", 0) is None
    assert not caplog.records, "who asks for the log tells, and not each time that it is tried"
    scene.expect_all()
    scene.make_space()
    assert scene.manager.get_or_create("u", 0, CONFIG, topic_id).topic_id == topic_id


def test_a_topic_is_deleted_although_there_is_no_space_for_longer_names(scene):
    path = scene.log.directory
    scene.disk.fail = lambda operation, path: full(operation, path) if operation == "rename" else None
    scene.manager.delete("t", 0)
    assert not Path(path).exists()
    assert not scene.manager.directories.any_offline
    scene.manager.directories.remove_files(scene.manager.directories.take_due_files())
    assert values(scene.manager.get_or_create("t", 0, CONFIG, None)) == []


def test_retention_removes_segments_although_there_is_no_space_for_longer_names(scene):
    while len(scene.log.segments) < 3:
        scene.append()
    scene.log.delete_records_before(scene.log.segments.active.base_offset)
    scene.disk.fail = lambda operation, path: full(operation, path) if operation == "rename" else None
    retain(scene.manager)
    assert len(scene.log.segments) == 1
    assert [path.name for path in Path(scene.log.directory).glob("*.log*")] == [
        Path(scene.log.segments.active.file.path).name
    ]
    assert not scene.manager.directories.any_offline


def test_deleted_partitions_make_room_for_a_start_on_a_full_disk(scene, monkeypatch, caplog):
    scene.manager.delete("t", 0)
    (waiting,) = [name for name in scene.disk.list(scene.directory) if name.endswith("-delete")]
    scene.manager.close(clean=True)
    scene.managed().close(clean=True)
    assert waiting in scene.disk.list(scene.directory)  # the snapshot can be written later
    monkeypatch.setattr(scene.disk, "space", lambda path: (10**9, 4096))
    again = scene.managed()
    assert waiting not in scene.disk.list(scene.directory)
    assert f"removing {waiting} before anything else" in caplog.text
    again.close(clean=True)


def test_a_full_disk_is_logged_periodically(scene, caplog):
    scene.fill(".log")
    for _ in range(50):
        assert code_of(lambda: scene.log.append(scene.next_batch(), leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert caplog.text.count("The disk is full") == 1
    scene.clock.now_ms += 10_000
    assert code_of(lambda: scene.log.append(scene.next_batch(), leader_epoch=0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert caplog.text.count("The disk is full") == 2


def test_a_log_without_space_for_a_full_truncation_goes_offline(scene):
    scene.disk.fail = lambda operation, path: full(operation, path) if operation == "create" else None
    with pytest.raises(DiskFailure):
        scene.log.truncate_fully_and_start_at(100)
    assert scene.log.failure is not None


@pytest.mark.parametrize("name", [".index", ".timeindex"])
def test_the_largest_timestamp_is_found_after_index_entries_were_not_written(tmp_path: Path, name: str) -> None:
    """After a kill only the files have the timestamps; a time index behind the offset index would hide records."""
    disk = FaultyDisk()
    log = open_at(tmp_path, CONFIG, surroundings(disk))
    disk.fail = lambda operation, path: full(operation, path) if path.endswith(name) else None
    largest, number = NOW_MS + 100_000, 0
    while len(log.segments) == 1:
        if number == 5:
            log.flush()
        log.append(batch(b"v", timestamp=largest if number == 20 else NOW_MS + number), leader_epoch=0)
        number += 1
    log.flush()
    again = open_at(tmp_path, CONFIG, recovery_point=log.recovery_point)
    again.segments.first.load_timestamps()
    assert again.segments.first.max_timestamp == largest
    found = offset_for_timestamp(again, largest)
    assert found is not None
    assert found.offset == 20

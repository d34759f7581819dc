"""Flipped bits: answers stay the same, or the log rejects. Part of tests/campaign/flips.py, with its regressions."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.clean_check import check_clean_stop
from kwire.log.config import LogConfig
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import KafkaError
from tests.log.damage import Damage, Scene, judge
from tests.log.searching import offset_for_timestamp
from tests.log.support import NOW_MS, batch, marker, open_at, values

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_changes_no_answer_of_a_log_that_opens(tmp_path: Path, is_clean: bool) -> None:
    random_source = random.Random(41)
    scene = Scene.make(tmp_path, 41, is_clean=is_clean, steps=40)
    for _ in range(60):
        damage = Damage.draw(scene, random_source)
        verdict = judge(scene, damage, tmp_path)
        assert not (verdict.problems and damage.is_covered(scene)), f"{damage}: {verdict.problems}"


def test_the_comparison_detects_a_missing_record(tmp_path: Path) -> None:
    scene = Scene.make(tmp_path, 42, is_clean=True, steps=20)
    assert scene.problems_of(shutil.copytree(scene.directory, tmp_path / "sound again")) == []
    plain = scene.answers["plain"]
    plain["records"] = plain["records"][:-1]
    assert any("records" in each for each in scene.problems_of(shutil.copytree(scene.directory, tmp_path / "less")))


def filled(directory: Path) -> PartitionLog:
    """Return a log of ten batches with one record each, closed by a clean stop."""
    log = open_at(directory, CONFIG)
    for index in range(10):
        log.append(batch(b"%d" % index, timestamp=NOW_MS + index), leader_epoch=index // 4)
    log.close(clean=True)
    return log


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("bit", [0, 1, 5])
def test_an_offset_that_no_crc_covers_is_checked_by_its_neighbours(tmp_path: Path, number: int, bit: int) -> None:
    log = filled(tmp_path)
    segment = log.segments[log.segments.index_of(number)]
    flip(Path(f"{segment.stem}.log"), segment.position_of(number) + 7, bit)
    try:
        found = values(open_at(tmp_path, CONFIG, clean=True, recovery_point=10))
    except (CorruptLogError, KafkaError):
        return
    assert found == [b"%d" % index for index in range(len(found))]


def test_an_end_that_a_clean_stop_did_not_note_is_rejected(tmp_path: Path) -> None:
    log = filled(tmp_path)
    check_clean_stop(log)
    active = log.segments.active
    Path(f"{active.stem}.log").write_bytes(Path(f"{active.stem}.log").read_bytes()[: active.position_of(9)])
    with pytest.raises(CorruptLogError, match="ends at offset 9, although everything below offset 10 was durable"):
        open_at(tmp_path, CONFIG, clean=True, recovery_point=10)


def test_a_log_start_that_the_epochs_contradict_is_rejected(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    for index in range(10):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.delete_records_before(2)
    log.close(clean=True)
    with pytest.raises(CorruptLogError, match="begins at offset 5 by the log start checkpoint, and at 2"):
        open_at(tmp_path, CONFIG, clean=True, recovery_point=10, log_start_offset=5)
    assert values(open_at(tmp_path, CONFIG, clean=True, recovery_point=10, log_start_offset=2))[0] == b"2"


def test_epochs_that_begin_behind_the_log_start_are_derived_as_for_a_directory_of_kafka(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    for index in range(10):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.delete_records_before(2)
    log.close(clean=True)
    log = open_at(tmp_path, CONFIG, clean=True, recovery_point=10, log_start_offset=0)
    assert values(log)[0] == b"0"
    assert log.leader_epochs.entries() == [(0, 0)]


@pytest.mark.parametrize("position", range(34))
def test_the_transaction_index_is_used_only_if_the_log_confirms_it(tmp_path: Path, position: int) -> None:
    log = open_at(tmp_path, LogConfig())
    for sequence in range(3):
        log.append(
            batch(b"aborted", producer_id=7, producer_epoch=0, sequence=sequence, transactional=True), leader_epoch=0
        )
    log.append(batch(b"other", producer_id=8, producer_epoch=0, sequence=0, transactional=True), leader_epoch=0)
    log.append(marker(7, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    expected = log.aborted_transactions(0, 5)
    log.close(clean=True)
    flip(tmp_path / "00000000000000000000.txnindex", position)
    found = open_at(tmp_path, LogConfig(), clean=True, recovery_point=5).aborted_transactions(0, 5)
    assert [entry[:3] for entry in found] == [entry[:3] for entry in expected] == [(7, 0, 4)]


def test_an_index_entry_that_passes_over_a_batch_is_not_followed(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0)
    log = open_at(tmp_path, config)
    for index in range(10):
        log.append(batch(b"%d" % index, b"and", timestamp=NOW_MS + index), leader_epoch=0)
    entries = log.segments.active.offset_index.entries()
    log.close(clean=True)
    at = next(number for number, (offset, _) in enumerate(entries) if offset == 7)
    flip(tmp_path / "00000000000000000000.index", at * 8 + 3)  # a search for offset 6 would start after its batch
    again = open_at(tmp_path, config, clean=True, recovery_point=20)
    assert again.segments.active.position_of(6) == dict(entries)[7]


def test_a_timestamp_that_was_lowered_in_the_index_is_not_followed(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0)
    log = open_at(tmp_path, config)
    for index in range(10):
        log.append(batch(b"%d" % index, timestamp=NOW_MS + 4 * index), leader_epoch=0)
    entries = log.segments.active.time_index.entries()
    log.close(clean=True)
    at = entries.index((NOW_MS + 20, 5))
    flip(tmp_path / "00000000000000000000.timeindex", at * 12 + 7, bit=2 if (NOW_MS + 20) & 4 else 1)
    again = open_at(tmp_path, config, clean=True, recovery_point=10)
    for index in range(10):
        found = offset_for_timestamp(again, NOW_MS + 4 * index)
        assert found is not None
        assert found.offset == index

"""Recovery: a log opens again after every possible damage to its files."""

from __future__ import annotations

import shutil
import uuid

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.errors import CorruptLogError
from kwire.log.recovery import open_log
from kwire.protocol.compression import Codec
from kwire.protocol.records import parse_header
from tests.log.searching import max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, batch, everything, marker, open_at, surroundings, values

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)


def fill(directory, config=SMALL):
    """Fill a log: three producers, an aborted and an open transaction, several segments, two epochs."""
    log = open_at(directory, config)
    for index in range(12):
        log.append(batch(b"plain %d" % index, timestamp=NOW_MS + index), leader_epoch=index // 6)
        log.append(batch(b"seq %d" % index, producer_id=1, producer_epoch=0, sequence=index), leader_epoch=index // 6)
    log.append(batch(b"aborted", producer_id=2, producer_epoch=0, sequence=0, transactional=True), leader_epoch=1)
    log.append(marker(2, 0, commit=False), leader_epoch=1, origin=AppendOrigin.COORDINATOR)
    log.append(batch(b"open", producer_id=3, producer_epoch=0, sequence=0, transactional=True), leader_epoch=1)
    return log


def picture(log):
    """Return the whole state of a log."""
    return (
        [(record.offset, record.value, record.timestamp) for record in everything(log)],
        (log.log_start_offset, log.log_end_offset),
        log.leader_epochs.entries(),
        {
            producer_id: (entry.producer_epoch, entry.last_sequence, entry.current_transaction_first_offset)
            for producer_id, entry in log.producers.entries.items()
        },
        log.aborted_transactions(0, log.log_end_offset),
        log.last_stable_offset(log.log_end_offset),
        [offset_for_timestamp(log, NOW_MS + index) for index in range(-1, 13)],
        max_timestamp_offset(log),
    )


def test_a_clean_close_is_opened_without_a_scan(tmp_path):
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=True)
    again = open_at(tmp_path, SMALL, clean=True)
    assert picture(again) == before
    assert again.recovery_point == again.log_end_offset


def test_an_unclean_close_is_opened_with_a_scan(tmp_path):
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=False)
    assert picture(open_at(tmp_path, SMALL)) == before


def test_a_second_recovery_changes_nothing(tmp_path):
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=False)
    open_at(tmp_path, SMALL).close(clean=False)
    assert picture(open_at(tmp_path, SMALL)) == before


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("harm", ["missing", "cut", "garbage", "zeros", "empty"])
def test_derived_files_are_rebuilt(tmp_path, suffix, harm, clean):
    if clean and (suffix in (".txnindex", ".snapshot") or (harm == "empty" and suffix == ".index")):
        # After a clean close, the transaction index is trusted, as Kafka does, and an empty offset index is valid.
        # Damaged snapshots cause a replay, which another test covers.
        clean = False
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=True)
    for path in tmp_path.glob(f"*{suffix}"):
        data = path.read_bytes()
        if harm == "missing":
            path.unlink()
        else:
            replacements = {
                "cut": data[:-3],
                "garbage": b"\xa5\x5a" * 20,
                "zeros": bytes(len(data) or 24),
                "empty": b"",
            }
            path.write_bytes(replacements[harm])
    assert picture(open_at(tmp_path, SMALL, clean=clean)) == before


def test_without_snapshots_a_clean_log_replays_its_producers(tmp_path):
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=True)
    for path in tmp_path.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    assert picture(open_at(tmp_path, SMALL, clean=True)) == before


def test_the_batch_that_the_log_starts_in_is_replayed(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a", b"b", b"c", producer_id=1, producer_epoch=0, sequence=0), leader_epoch=0)
    log.delete_records_before(1)
    log.close(clean=True)
    for path in tmp_path.glob("*.snapshot"):
        path.write_bytes(b"")
    again = open_at(tmp_path, clean=True, log_start_offset=1)
    repeated = again.append(batch(b"a", b"b", b"c", producer_id=1, producer_epoch=0, sequence=0), leader_epoch=0)
    assert (repeated.base_offset, repeated.is_duplicate) == (0, True)


def test_a_missing_leader_epoch_file_is_rebuilt_from_the_batches(tmp_path):
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=False)
    (tmp_path / "leader-epoch-checkpoint").unlink()
    assert picture(open_at(tmp_path, SMALL)) == before


def test_every_torn_tail_recovers_to_a_prefix(tmp_path):
    source = tmp_path / "source"
    log = open_at(source)
    ends = [0]
    for index in range(4):
        codec = list(Codec)[index]
        log.append(
            batch(b"value %d" % index, codec=codec, producer_id=9, producer_epoch=0, sequence=index), leader_epoch=0
        )
        ends.append(log.size_in_bytes)
    log.close(clean=False)
    name = "00000000000000000000.log"
    whole = (source / name).read_bytes()
    for cut in range(len(whole) + 1):
        directory = tmp_path / "torn"
        directory.mkdir()
        (directory / name).write_bytes(whole[:cut])
        torn = open_at(directory)
        count = sum(1 for end in ends[1:] if end <= cut)
        assert torn.log_end_offset == count
        assert torn.size_in_bytes == ends[count]
        assert torn.append(batch(producer_id=9, producer_epoch=0, sequence=count), leader_epoch=1).base_offset == count
        torn.close(clean=False)
        shutil.rmtree(directory)


def test_every_flipped_bit_behind_the_recovery_point_is_found(tmp_path):
    source = tmp_path / "source"
    log = open_at(source)
    for index in range(2):
        log.append(batch(b"value %d" % index), leader_epoch=0)
    log.close(clean=False)
    name = "00000000000000000000.log"
    whole = (source / name).read_bytes()
    not_covered = {*range(8), *range(12, 16)}  # the CRC does not cover the base offset and the leader epoch
    for position in range(len(whole) // 2):
        if position in not_covered:
            continue
        directory = tmp_path / "flipped"
        directory.mkdir()
        (directory / name).write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        flipped = open_at(directory)
        assert flipped.log_end_offset == 0
        flipped.close(clean=False)
        shutil.rmtree(directory)


def test_damage_below_the_recovery_point_is_not_cut_away(tmp_path):
    log = fill(tmp_path)
    log.flush()
    recovery_point = log.recovery_point
    log.close(clean=False)
    path = tmp_path / f"{log.segments.active.base_offset:020d}.log"
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError):
        open_at(tmp_path, SMALL, recovery_point=recovery_point)
    assert path.read_bytes() == data


def test_only_what_lies_behind_the_recovery_point_is_scanned(tmp_path):
    log = fill(tmp_path)
    log.flush()
    log.close(clean=False)
    first = tmp_path / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    data[65] ^= 1
    first.write_bytes(data)
    again = open_at(tmp_path, SMALL, recovery_point=log.recovery_point)
    assert again.log_end_offset == log.log_end_offset
    with pytest.raises(CorruptLogError):
        again.read(0, 100)


def test_segments_behind_a_flaw_are_removed(tmp_path):
    log = fill(tmp_path)
    log.close(clean=False)
    second = log.segments[1]
    path = tmp_path / f"{second.base_offset:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = open_at(tmp_path, SMALL)
    assert [segment.base_offset for segment in again.segments] == [0, second.base_offset]
    assert again.log_end_offset < log.segments[2].base_offset
    assert len(list(tmp_path.glob("*.log"))) == 2


def test_a_log_start_offset_above_the_log_end_empties_the_log(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a"), leader_epoch=0)
    log.close(clean=False)
    again = open_at(tmp_path, log_start_offset=5)
    assert (again.log_start_offset, again.log_end_offset) == (5, 5)
    assert again.append(batch(b"b"), leader_epoch=1).base_offset == 5


def test_leftovers_of_deletions_and_compactions_are_settled(tmp_path):
    log = fill(tmp_path)
    before = picture(log)
    log.close(clean=False)
    (tmp_path / "00000000000000000000.log.deleted").write_bytes(b"x")
    (tmp_path / "00000000000000000099.log.cleaned").write_bytes(b"x")
    (tmp_path / "00000000000000000099.log.swap").write_bytes(b"x")
    (tmp_path / "00000000000000000077.timeindex").write_bytes(b"x")
    (tmp_path / "leader-epoch-checkpoint.tmp").write_bytes(b"x")
    assert picture(open_at(tmp_path, SMALL)) == before
    names = {path.name for path in tmp_path.iterdir()}
    assert not any(name.endswith((".deleted", ".cleaned", ".swap", ".tmp")) for name in names)
    assert "00000000000000000077.timeindex" not in names


def test_a_finished_swap_replaces_the_segments_it_was_made_from(tmp_path):
    log = fill(tmp_path)
    records = everything(log)
    third = log.segments[2].base_offset
    log.close(clean=False)
    merged = b"".join((tmp_path / f"{log.segments[i].base_offset:020d}.log").read_bytes() for i in (0, 1))
    (tmp_path / "00000000000000000000.log.swap").write_bytes(merged)
    again = open_at(tmp_path, LogConfig(segment_bytes=10_000))
    assert [segment.base_offset for segment in again.segments][:2] == [0, third]
    assert everything(again) == records


def test_the_topic_id_is_kept(tmp_path):
    directory, topic_id = tmp_path / "t-0", uuid.uuid4()
    world, config = surroundings(), LogConfig()
    log = open_log(str(directory), topic="t", partition=0, config=config, surroundings=world, topic_id=topic_id)
    log.close(clean=False)
    assert open_at(directory).topic_id == topic_id
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: ?\n")
    assert open_at(directory).topic_id is None


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_of_a_producer_survive_a_restart(tmp_path, clean):
    log = open_at(tmp_path)
    for sequence in range(8):
        log.append(batch(producer_id=1, producer_epoch=0, sequence=sequence), leader_epoch=0)
    log.close(clean=clean)
    again = open_at(tmp_path, clean=clean)
    for sequence in range(3, 8):
        repeated = again.append(batch(producer_id=1, producer_epoch=0, sequence=sequence), leader_epoch=0)
        assert (repeated.base_offset, repeated.is_duplicate) == (sequence, True)
    assert again.append(batch(producer_id=1, producer_epoch=0, sequence=8), leader_epoch=0).base_offset == 8
    assert len(values(again)) == 9


def test_the_time_index_of_a_recovered_segment_has_the_largest_timestamp(tmp_path):
    """After a clean stop, Apache Kafka reads the largest timestamp only from the time index."""
    log = open_at(tmp_path, LogConfig(segment_bytes=600))
    for index in range(12):
        log.append(batch(b"plain %d" % index, timestamp=NOW_MS + index), leader_epoch=0)
    log.close(clean=False)
    recovered = open_at(tmp_path, LogConfig(segment_bytes=600))
    recovered.close(clean=True)
    assert len(recovered.segments) > 1
    for segment in recovered.segments:
        data = (tmp_path / f"{segment.base_offset:020d}.timeindex").read_bytes()
        assert int.from_bytes(data[-12:-4], "big") == segment.max_timestamp


def test_records_left_by_a_killed_process_are_synced_when_the_log_opens(tmp_path):
    """With flush.messages=1, a read must not return data that a power cut can remove."""
    config = LogConfig(flush_messages=1)
    log = open_at(tmp_path, config)
    log.append(batch(b"a"), leader_epoch=0)
    assert log.recovery_point == 0
    log.close(clean=False)
    again = open_at(tmp_path, config)
    assert (again.recovery_point, again.log_end_offset, again.has_unsynced) == (1, 1, False)


@pytest.mark.parametrize("how", ["a batch", "the last segment", "all segments"])
def test_missing_batches_at_the_end_are_logged(tmp_path, caplog, how):
    """A log that lost whole batches looks intact; its leader may have made it truncate just before the crash."""
    log = open_at(tmp_path, SMALL)
    for index in range(20):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.flush()
    size = parse_header(log.read(19, 1000), 0).size_in_bytes
    log.close(clean=False)
    paths = sorted(tmp_path.glob("*.log"))
    if how == "a batch":
        paths[-1].write_bytes(paths[-1].read_bytes()[:-size])
    for path in {"a batch": [], "the last segment": paths[-1:], "all segments": paths}[how]:
        path.unlink()
    assert open_at(tmp_path, SMALL, recovery_point=20).log_end_offset < 20
    assert "below the checkpointed recovery point 20" in caplog.text


@pytest.mark.parametrize("gap", [20, 2**31 - 40, 2**31 + 40])
def test_a_gap_that_compaction_left_on_the_leader_survives_a_kill(tmp_path, gap):
    """A follower rolls segments independently: offsets that compaction removed may lie between two of its segments."""
    log = open_at(tmp_path / "t-0", SMALL)
    log.append(batch(b"before"), leader_epoch=0)
    log.config = LogConfig(segment_bytes=log.size_in_bytes + 1)
    for offset in (1 + gap, 2 + gap):
        log.append(offset.to_bytes(8, "big") + batch(b"after")[8:], leader_epoch=0, origin=AppendOrigin.REPLICATION)
    assert len(log.segments) == 3
    log.close(clean=False)
    again = open_at(tmp_path / "t-0", SMALL)
    assert values(again) == [b"before", b"after", b"after"]
    assert again.log_end_offset == 3 + gap

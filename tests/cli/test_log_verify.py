"""The command `kwire log verify`: no findings in a broker's directory, and a finding for each damaged file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kwire.cli import main
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from tests.log.inspection.support import CONFIG, TOPIC_ID, write_directory
from tests.log.support import batch, surroundings
from tests.support.requests import create_topic
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_directory(tmp_path / "data")
    return tmp_path / "data"


def verify(directory: Path, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
    ended = CliRunner().invoke(main, ["log", "verify", "--format", "json", str(directory), *arguments])
    assert ended.exit_code == status, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def flipped(whole: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the content with one flipped bit: in each byte at the start, and in some bytes of the rest."""
    for position in range(len(whole)):
        if position > 80 and position % 9:  # the first batch's header is covered completely
            continue
        data = bytearray(whole)
        data[position] ^= 1 << (position * 5 + 3) % 8
        yield position, bytes(data)


def undetected_flips(data: Path, path: Path) -> list[int]:
    """Return the positions of flipped bits that verify does not detect."""
    whole = path.read_bytes()
    missed = []
    for position, content in flipped(whole):
        path.write_bytes(content)
        ended = CliRunner().invoke(main, ["log", "verify", str(data)])
        assert ended.exit_code in (0, 1), (path, position, ended)
        if ended.exit_code == 0:
            missed.append(position)
    path.write_bytes(whole)
    return missed


def test_the_directory_of_a_stopped_broker_is_sound(data):
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert verify(data) == []
    assert verify(data / "orders-0") == []
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", [
    "00000000000000000014.index", "00000000000000000000.timeindex", "00000000000000000000.txnindex",
    "00000000000000000026.snapshot", "leader-epoch-checkpoint", "partition.metadata",
])  # fmt: skip
def test_a_flipped_bit_in_a_small_file_of_a_partition_is_found(data, name):
    path = data / "orders-0" / name
    missed = undetected_flips(data, path)
    # Without the metadata log, any topic id is plausible.
    assert not missed or (name == "partition.metadata" and min(missed) >= path.read_bytes().index(b": ", 12) + 2)


@pytest.mark.parametrize("base_offset", [0, 26])
def test_a_flipped_bit_in_a_batch_is_found(data, base_offset):
    assert not undetected_flips(data, data / "orders-0" / f"{base_offset:020d}.log")


def test_a_flipped_bit_in_a_checkpoint_is_found(data):
    assert not undetected_flips(data, data / "recovery-point-offset-checkpoint")
    # Only the bounds of the high watermark are known; any id and broker epoch is plausible.
    assert set(undetected_flips(data, data / "replication-offset-checkpoint")) <= {13, 14, 15}
    identity = (data / "meta.properties").read_bytes()
    assert not [
        at
        for at in undetected_flips(data, data / "meta.properties")
        if identity.find(b"version") <= at < identity.find(b"cluster")
    ]


@pytest.mark.parametrize(
    "content", ["garbage\n", "0\n1\norders 0 999999\n", "0\n1\nelsewhere 0 5\n", "0\n7\norders 0 1\n"]
)
def test_a_wrong_cleaner_checkpoint_is_found(data, content):
    path = data / "cleaner-offset-checkpoint"
    path.write_text("0\n1\norders 0 1\n")
    assert verify(data) == []
    dumped = CliRunner().invoke(main, ["log", "dump", "--format", "json", str(path)])
    assert dumped.exit_code == 0, dumped.output
    assert '"orders"' in dumped.stdout
    path.write_text(content)
    (finding,) = verify(data, status=1)
    assert finding["path"] == str(path)


def test_a_torn_tail_is_reported_with_its_position(data):
    path = data / "orders-0" / f"{26:020d}.log"
    path.write_bytes(path.read_bytes()[:-7])
    torn = next(each for each in verify(data, status=1) if each["path"] == str(path))
    assert "ends inside a batch" in torn["what"]
    assert torn["offset"] == 32
    assert torn["position"] > 0


def test_a_lost_segment_is_reported(data):
    for path in (data / "orders-0").glob(f"{14:020d}.[lit]*"):
        path.unlink()
    (note,) = verify(data)
    assert (note["is_wrong"], note["offset"]) == (False, 14)
    (data / "orders-0" / f"{26:020d}.log").unlink()
    assert any("ends at offset 14" in each["what"] for each in verify(data, status=1))


def test_leftovers_are_notes(data):
    segment = data / "orders-0" / f"{0:020d}.log"
    for suffix in (".deleted", ".cleaned", ".swap"):
        shutil.copy(segment, f"{segment}{suffix}")
    (data / f"gone-0.{'0' * 32}-delete").mkdir()
    found = verify(data)
    assert len(found) == 4
    assert not any(each["is_wrong"] for each in found)


def test_other_partitions_of_the_topic_have_its_id(data):
    (data / "orders-1").mkdir()
    for path in (data / "orders-0").iterdir():
        shutil.copy(path, data / "orders-1")
    metadata = data / "orders-1" / "partition.metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"AAAA", b"AAQA", 1))
    assert any("topic id" in each["what"] for each in verify(data, status=1))


def test_verify_rejects_the_directory_of_a_running_broker(data, tmp_path):
    from tests.support.processes import server

    with server(tmp_path / "live"):
        ended = CliRunner().invoke(main, ["log", "verify", str(tmp_path / "live")])
        assert ended.exit_code == 2
        assert "in use by a running broker" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
        assert CliRunner().invoke(main, ["log", "verify", "--force", str(tmp_path / "live")]).exit_code == 0
    assert CliRunner().invoke(main, ["log", "verify", str(tmp_path / "live")]).exit_code == 0


def test_after_an_unclean_stop_it_is_sound_as_well(tmp_path):
    manager = LogManager([str(tmp_path)], surroundings(RealDisk()))
    log = manager.get_or_create("orders", 0, CONFIG, TOPIC_ID)
    for _ in range(9):
        log.append(batch(b"x" * 300), leader_epoch=0)
    manager.directories.checkpoint({("orders", 0): 4})
    manager.close(clean=False)
    assert verify(tmp_path) == []


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_a_path_that_is_no_log_directory_is_rejected(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    ended = CliRunner().invoke(main, ["log", "verify", str(tmp_path / name)])
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert name in line


def test_verify_prints_text_by_default(data):
    (data / "orders-0" / f"{26:020d}.snapshot").write_bytes(b"\x00\x01")
    ended = CliRunner().invoke(main, ["log", "verify", str(data)])
    assert ended.exit_code == 1
    wrong, total = ended.stdout.splitlines()
    assert wrong.startswith("wrong: ")
    assert ".snapshot" in wrong
    assert total == "2842 bytes of batches read: 1 wrong"


def test_a_metadata_log_that_begins_with_a_snapshot_is_sound(tmp_path):
    """The segment contains records below the snapshot, which leader-epoch-checkpoint no longer covers."""
    settings = {
        "metadata.log.max.snapshot.interval.ms": "200",
        "metadata.max.retention.ms": "400",
        "metadata.log.max.record.bytes.between.snapshots": "1",
    }
    epochs = tmp_path / "data/__cluster_metadata-0/leader-epoch-checkpoint"
    count = 0

    with RunningBroker(tmp_path / "data", settings) as broker, broker.client() as client:

        def begins_later() -> bool:
            nonlocal count
            count += 1
            create_topic(client, name=f"t{count}")
            return int(epochs.read_text().split()[-1]) > 0

        eventually(begins_later, "the log to begin with a snapshot", 60)
        create_topic(client, name="last")
    assert verify(tmp_path / "data") == []

"""Damage in the metadata log: recovery truncates a torn end, and any other damage prevents a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.quorum.state import QuorumState, store_quorum_state
from kwire.cluster.raft.metadata_damage import reject_damage, store_recovery_point
from kwire.log.checkpoints import RECOVERY_POINT_FILE
from kwire.log.disk import Data, RealDisk
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.records import with_offsets
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker

LOG = "00000000000000000000.log"


def write(directory: Path, data: bytes, name: str = LOG) -> None:
    (directory / name).write_bytes(data)


def batches(count: int) -> list[bytes]:
    """Return consecutive batches of one record each."""
    return [with_offsets(bytes(data), index, len(data) - 12, 0) for index, data in enumerate([batch(b"a")] * count)]


def rejected(directory: Path) -> bool:
    try:
        reject_damage(RealDisk(), str(directory))
    except DirectoryRejected:
        return True
    return False


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    whole = batch(b"a") + batch(b"b" * 50)
    for size in range(len(whole) + 1):
        write(tmp_path, whole[:size])
        assert not rejected(tmp_path)
    write(tmp_path, whole + bytes(500))
    assert not rejected(tmp_path)
    assert not rejected(tmp_path / "missing")


def test_a_flaw_with_batches_behind_it_is_damage(tmp_path: Path) -> None:
    first, rest = batch(b"a"), batch(b"b") + batch(b"c")
    for position in range(8, len(first)):  # the CRC does not cover the base offset and the leader epoch
        if position in range(12, 16):
            continue
        damaged = bytearray(first + rest)
        damaged[position] ^= 0x41
        write(tmp_path, bytes(damaged))
        assert rejected(tmp_path), position


def test_a_flaw_at_the_end_of_an_older_segment_is_damage(tmp_path: Path) -> None:
    write(tmp_path, batch(b"a")[:-1])
    write(tmp_path, batch(b"b"), "00000000000000000001.log")
    assert rejected(tmp_path)


@pytest.mark.parametrize("recovery_point", [None, 3, 1])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_segment_that_is_gone_from_the_middle_is_damage(
    tmp_path: Path, recovery_point: int | None, is_empty: bool
) -> None:
    """Truncation at the gap would lose topics in later segments, unless those segments were not durable yet."""
    first, _, third = batches(3)
    if recovery_point is not None:
        store_recovery_point(RealDisk(), str(tmp_path), recovery_point, last_epoch=0)
    write(tmp_path, first)
    if is_empty:
        write(tmp_path, b"", "00000000000000000001.log")
    write(tmp_path, third, "00000000000000000002.log")
    assert rejected(tmp_path) == (recovery_point != 1)


def test_batches_above_the_recovery_point_may_be_lost_in_any_order(tmp_path: Path) -> None:
    durable, lost, kept = batches(3)
    store_recovery_point(RealDisk(), str(tmp_path), 1, last_epoch=0)
    write(tmp_path, durable + bytes(len(lost)) + kept)
    assert not rejected(tmp_path)
    write(tmp_path, durable)
    write(tmp_path, kept, "00000000000000000002.log")
    assert not rejected(tmp_path)


def test_a_torn_write_may_leave_zeros_where_the_offset_was(tmp_path: Path) -> None:
    first, second, _ = batches(3)
    store_recovery_point(RealDisk(), str(tmp_path), 1, last_epoch=0)
    write(tmp_path, first + bytes(8) + second[8:])
    assert not rejected(tmp_path)
    store_recovery_point(RealDisk(), str(tmp_path), 2, last_epoch=0)
    assert rejected(tmp_path)


def test_batches_below_the_recovery_point_must_be_complete(tmp_path: Path) -> None:
    first, second, _ = batches(3)
    store_recovery_point(RealDisk(), str(tmp_path), 2, last_epoch=0)
    write(tmp_path, first + second)
    assert not rejected(tmp_path)
    for data in (first + second[:-1], first + second[:-1] + b"?", first, b""):
        write(tmp_path, data)
        assert rejected(tmp_path)
    (tmp_path / LOG).unlink()
    assert rejected(tmp_path)


def test_other_software_may_truncate_below_the_recovery_point_in_a_later_epoch(tmp_path: Path) -> None:
    first, second, third = batches(3)
    store_recovery_point(RealDisk(), str(tmp_path), 3, last_epoch=4)
    write(tmp_path, first + second)
    store_quorum_state(RealDisk(), str(tmp_path), QuorumState(leader_epoch=4))
    assert rejected(tmp_path), "no leader truncates what its own epoch has written"
    store_quorum_state(RealDisk(), str(tmp_path), QuorumState(leader_epoch=5))
    for data in (first + second, first, first + second[:-1]):
        write(tmp_path, data)
        assert not rejected(tmp_path)
    write(tmp_path, first + second[:-1] + b"?" + third)
    assert rejected(tmp_path), "a flaw with a whole batch behind it is damage, whoever wrote it"


def test_a_torn_write_early_in_an_epoch_is_no_damage(tmp_path: Path) -> None:
    """The file of the epoch's first flush is not durable yet; the file of the epoch's begin is."""
    first, second, third = batches(3)
    torn = first + bytes(len(second)) + third
    store_quorum_state(RealDisk(), str(tmp_path), QuorumState(leader_epoch=5))
    for begun, is_rejected in ((5, False), (4, True)):
        store_recovery_point(RealDisk(), str(tmp_path), 1, last_epoch=4, begun_epoch=begun)
        write(tmp_path, torn)
        assert rejected(tmp_path) == is_rejected
    store_recovery_point(RealDisk(), str(tmp_path), 2, last_epoch=4, begun_epoch=5)
    assert rejected(tmp_path), "the flaw is below what was durable"
    write(tmp_path, first)
    assert not rejected(tmp_path), "other software may have cut there"


class WatchedDisk(RealDisk):
    """A disk that records the names of files that are replaced durably."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: list[str] = []

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        if sync and METADATA_DIRECTORY in path:
            self.replaced.append(Path(path).name)
        super().replace(path, data, sync=sync)


def test_a_new_epoch_is_noted_durably_before_anything_is_written_in_it(tmp_path: Path) -> None:
    with RunningBroker(tmp_path):
        pass
    disk = WatchedDisk()
    with RunningBroker(tmp_path, disk=disk):
        assert disk.replaced[:2] == [RECOVERY_POINT_FILE, "quorum-state"]


def test_a_recovery_point_of_an_earlier_release_names_no_epoch(tmp_path: Path) -> None:
    first, second, _ = batches(3)
    (tmp_path / RECOVERY_POINT_FILE).write_text("0\n1\n__cluster_metadata 0 3\n")
    store_quorum_state(RealDisk(), str(tmp_path), QuorumState(leader_epoch=5))
    write(tmp_path, first + second)
    assert rejected(tmp_path)


def test_a_torn_recovery_point_counts_as_a_crash(tmp_path: Path) -> None:
    first, second, third = batches(3)
    write(tmp_path, first + bytes(len(second)) + third)
    assert rejected(tmp_path)
    for torn in (b"", b"0\n1\n__cluster_meta"):
        (tmp_path / "recovery-point-offset-checkpoint").write_bytes(torn)
        assert not rejected(tmp_path)


def test_a_changed_bit_costs_no_topic(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topics = [create_topic(client)[0] for _ in range(3)]
        for topic in topics:
            produce(client, topic, batch(b"kept"))
    path = tmp_path / METADATA_DIRECTORY / LOG
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[good.index(topics[0].encode())] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DirectoryRejected, match="restore it from a backup"):
        RunningBroker(tmp_path)
    path.write_bytes(good)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        assert [values_in(fetch(client, topic).records) for topic in topics] == [[b"kept"]] * 3


@pytest.mark.parametrize("bit", range(0, 64, 7))
def test_an_offset_that_changed_is_damage(tmp_path: Path, bit: int) -> None:
    """No CRC covers the offset, and a later batch would look like a torn one after it."""
    first, second, third = batches(3)
    store_recovery_point(RealDisk(), str(tmp_path), 3, last_epoch=0)
    changed = bytearray(second)
    changed[7 - bit // 8] ^= 1 << bit % 8
    write(tmp_path, first + second + third)
    assert not rejected(tmp_path)
    write(tmp_path, first + changed + third)
    assert rejected(tmp_path)

"""Simulated disk: data after a power cut, faults on request, and operations of ended processes."""

from __future__ import annotations

import errno

import pytest

from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.simulation import Device, SeededRandomSource
from kwire.simulation.disk import ProcessKilled, SimulatedDisk

SEEDS = 60


def disk_of(device: Device) -> Disk:
    return SimulatedDisk(device)


def after_cut(device: Device, seed: int) -> Disk:
    device.lose_power(SeededRandomSource(seed))
    return SimulatedDisk(device)


def started() -> tuple[Device, Disk]:
    """Return a disk with a durable directory /d."""
    device = Device()
    disk = disk_of(device)
    disk.make_directory("/d")
    disk.sync_directory("")
    return device, disk


def test_synced_data_survives_and_unsynced_data_survives_in_part() -> None:
    left = set()
    for seed in range(SEEDS):
        device, disk = started()
        file = disk.open("/d/log", create=True)
        file.append(b"a" * 1000)
        file.sync()
        disk.sync_directory("/d")
        file.append(b"b" * 1000, b"c" * 1000)
        content = after_cut(device, seed).read("/d/log")
        assert content[:1000] == b"a" * 1000
        assert len(content) <= 3000
        left.add(content)
        assert device.used_bytes == len(content)
    assert b"a" * 1000 in left
    assert b"a" * 1000 + b"b" * 1000 + b"c" * 1000 in left
    assert len(left) > 5, "torn in many ways"
    assert any(b"\0" in content for content in left), "blocks that were never written"


def test_a_truncation_that_was_not_synced_may_come_back() -> None:
    left = set()
    for seed in range(SEEDS):
        device, disk = started()
        file = disk.open("/d/log", create=True)
        file.append(b"abcdef")
        file.sync()
        disk.sync_directory("/d")
        file.truncate(2)
        file.append(b"XY")
        left.add(after_cut(device, seed).read("/d/log"))
    assert {b"abcdef", b"abXY"} < left
    assert all(content[:2] == b"ab" for content in left)


def test_names_are_durable_with_their_directory_only() -> None:
    names = set()
    for seed in range(SEEDS):
        device, disk = started()
        disk.open("/d/one", create=True).sync()
        disk.sync_directory("/d")
        disk.rename("/d/one", "/d/two")
        disk.open("/d/three", create=True).sync()
        names.add(tuple(after_cut(device, seed).list("/d")))
    assert names == {("one",), ("two",), ("three", "two")}


def test_a_replacement_is_whole_or_not_there() -> None:
    contents = set()
    for seed in range(SEEDS):
        device, disk = started()
        disk.replace("/d/state", b"old", sync=True)
        disk.replace("/d/state", b"new", sync=False)
        contents.add(after_cut(device, seed).read("/d/state"))
    assert {b"old", b"new"} < contents, "without sync the content may be torn"
    device, disk = started()
    disk.replace("/d/state", b"new", sync=True)
    assert {after_cut(device, seed).read("/d/state") for seed in range(SEEDS)} == {b"new"}


def test_a_full_device_rejects_writes_and_changes_nothing() -> None:
    device, disk = started()
    file = disk.open("/d/log", create=True)
    file.append(b"1234")
    device.fill(free_bytes=3)
    with pytest.raises(DiskFullError):
        file.append(b"5678")
    with pytest.raises(DiskFullError):
        disk.replace("/d/other", b"5678", sync=True)
    assert (file.size, disk.list("/d"), disk.space("/d")[1]) == (4, ["log"], 3)
    disk.unlink("/d/log")
    disk.replace("/d/other", b"5678", sync=True)
    device.empty()
    assert disk.space("/d")[1] > 1 << 30


def test_operations_fail_as_configured_until_healed() -> None:
    device, disk = started()
    file = disk.open("/d/log", create=True)
    fault = device.fail("fsync", path=".log")
    file.sync()
    other = disk.open("/d/0.log", create=True)
    with pytest.raises(DiskFailure) as failed:
        other.sync()
    assert failed.value.error.errno == errno.EIO
    assert not isinstance(failed.value, DiskFullError)
    device.heal(fault)
    other.sync()


def test_bits_may_flip_and_devices_be_exchanged() -> None:
    device, disk = started()
    disk.replace("/d/file", b"\x00\x00", sync=True)
    device.flip("/d/file", 1, 0x80)
    assert disk.read("/d/file") == b"\x00\x80"
    device.wipe()
    assert not disk.exists("/d")


def test_a_killed_process_cannot_use_the_disk_and_holds_no_lock() -> None:
    device, _ = started()
    first, second = SimulatedDisk(device), SimulatedDisk(device)
    file = first.open("/d/log", create=True)
    assert first.lock("/d/.lock") is not None
    assert second.lock("/d/.lock") is None
    first.is_dead = True
    assert second.lock("/d/.lock") is not None
    for call in (lambda: file.append(b"x"), file.sync, lambda: first.list("/d"), lambda: first.unlink("/d/log")):
        with pytest.raises(ProcessKilled):
            call()
    assert second.size("/d/log") == 0

"""What the generator takes for a legal state after a power cut, case by case."""

from __future__ import annotations

from tests.crash.disk import RecordingDisk, Tree
from tests.crash.explore import frozen
from tests.crash.journal import PAGE_BYTES, SECTOR_BYTES, Journal

START: Tree = {"d": {"old": b"old"}}


def states(disk: RecordingDisk, *, limit: int = 20_000, free_order: int = 0) -> set[object]:
    journal = Journal(START)
    journal.follow(disk.operations)
    return {
        frozen(tree["d"])
        for _, tree in journal.states(limit=limit, seed=1, free_order=free_order)
        if isinstance(tree["d"], dict)
    }


def of(**files: bytes) -> object:
    return frozen({"old": b"old", **files})


def test_an_unsynced_append_is_lost_whole_or_from_any_byte_on() -> None:
    disk = RecordingDisk(START)
    disk.open("/d/old").append(b"123")
    expected = {of(old=content) for content in (b"old", b"old1", b"old12", b"old123", b"old\0\0\0")}
    assert states(disk) == expected - {of(old=b"old\0\0\0")} | {of(old=b"old\0\0\0")}


def test_a_synced_file_stays_but_its_name_may_go() -> None:
    disk = RecordingDisk(START)
    file = disk.open("/d/new", create=True)
    file.append(b"x")
    file.sync()
    assert states(disk) == {of(), of(new=b"x")}
    disk.sync_directory("/d")
    assert states(disk) == {of(new=b"x")}


def test_a_replacement_without_sync_may_leave_a_name_without_content() -> None:
    disk = RecordingDisk(START)
    disk.replace("/d/old", b"NEW", sync=False)
    found = states(disk)
    assert {of(), of(old=b"NEW"), of(old=b""), of(old=b"\0\0\0"), of(old=b"NE")} <= found
    assert all("old" in dict(state) for state in found)  # type: ignore[call-overload]


def test_a_synced_replacement_is_the_new_content() -> None:
    disk = RecordingDisk(START)
    disk.replace("/d/old", b"NEW", sync=True)
    assert states(disk) == {of(old=b"NEW")}


def test_sectors_and_pages_of_one_run_get_to_the_disk_in_any_order() -> None:
    disk = RecordingDisk({"d": {"old": b"old"}})
    file = disk.open("/d/new", create=True)
    for _ in range(3):
        file.append(b"x" * SECTOR_BYTES)
    disk.sync_directory("/d")
    zeros, data = bytes(SECTOR_BYTES), b"x" * SECTOR_BYTES
    found = states(disk)
    assert {of(new=zeros + data + data), of(new=data + zeros + data), of(new=data + zeros), of(new=data)} <= found
    assert of(new=bytes(3 * SECTOR_BYTES)) in found
    assert SECTOR_BYTES < PAGE_BYTES


def test_a_truncation_may_be_lost_with_what_came_after_it() -> None:
    disk = RecordingDisk(START)
    file = disk.open("/d/old")
    file.truncate(1)
    file.append(b"!")
    assert states(disk) == {of(old=content) for content in (b"old", b"o", b"o!", b"o\0")}


def test_names_of_one_directory_keep_their_order_unless_it_is_free() -> None:
    disk = RecordingDisk(START)
    for name in ("a", "b"):
        disk.open(f"/d/{name}", create=True)
    assert states(disk) == {of(), of(a=b""), of(a=b"", b=b"")}
    assert states(disk, free_order=2) == {of(), of(a=b""), of(b=b""), of(a=b"", b=b"")}


def test_a_name_that_depends_on_another_is_not_there_without_it() -> None:
    disk = RecordingDisk(START)
    disk.open("/d/a", create=True)
    disk.rename("/d/a", "/d/b")
    assert states(disk, free_order=2) == {of(), of(a=b""), of(b=b"")}

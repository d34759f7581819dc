"""Indexes rebuilt while a broker runs: after a power cut at any time, a log finds its timestamps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log.config import LogConfig
from kwire.log.not_ready import ready_at_once
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings
from tests.crash.disk import RecordingDisk, Tree
from tests.crash.journal import Journal
from tests.log.support import NOW_MS, FixedChance, ManualClock, batch, headers, open_at

DENSE = LogConfig(index_interval_bytes=1, segment_bytes=10 * 1024**2)
DIRECTORY = Path("/kafka/orders-0")
BATCHES = 200
NEWEST = 150
"""Number of the batch with the largest timestamp; a sector of 512 bytes may end between two index entries before it."""
VALUE = bytes(4096)
"""Value large enough that each batch gets an index entry."""
STATES = 60


def opened(tree: Tree, *, is_clean: bool, end_offset: int) -> tuple[PartitionLog, RecordingDisk]:
    disk = RecordingDisk(tree)
    world = Surroundings(disk=disk, clock=ManualClock(), random_source=FixedChance())
    log = open_at(DIRECTORY, DENSE, world, clean=is_clean, recovery_point=end_offset)
    return log, disk


def filled(*, is_closed: bool) -> Tree:
    """Return the durable files after a clean stop; the largest timestamp is not near the segment's end."""
    log, disk = opened({"kafka": {}}, is_clean=True, end_offset=0)
    for number in range(BATCHES):
        log.append(batch(VALUE, timestamp=NOW_MS if number == NEWEST else NOW_MS - BATCHES + number), leader_epoch=0)
    if is_closed:
        log.roll()
        log.append(batch(b"v", timestamp=NOW_MS - BATCHES), leader_epoch=0)
    log.close(clean=True)
    return disk.tree()


def files_in(tree: Tree) -> dict[str, Tree | bytes]:
    kafka = tree["kafka"]
    assert isinstance(kafka, dict)
    found = kafka["orders-0"]
    assert isinstance(found, dict)
    return found


def without_index(files: dict[str, Tree | bytes]) -> None:
    del files[f"{0:020d}.index"]


def with_a_wrong_position(files: dict[str, Tree | bytes]) -> None:
    name = f"{0:020d}.index"
    data = files[name]
    assert isinstance(data, bytes)
    files[name] = data[:87] + bytes([data[87] ^ 1]) + data[88:]


def without_time_index(files: dict[str, Tree | bytes]) -> None:
    files[f"{0:020d}.timeindex"] = b""


@pytest.mark.parametrize("spoil", [without_index, with_a_wrong_position, without_time_index])
@pytest.mark.parametrize("is_closed", [True, False])
def test_the_largest_timestamp_outlives_a_power_cut(
    spoil: Callable[[dict[str, Tree | bytes]], None], is_closed: bool
) -> None:
    tree = filled(is_closed=is_closed)
    spoil(files_in(tree))
    end = BATCHES + is_closed
    log, disk = opened(tree, is_clean=True, end_offset=end)
    for offset in range(0, BATCHES, 3):
        assert headers(ready_at_once(lambda offset=offset: log.read(offset, 1)))[0].base_offset == offset  # type: ignore[misc]
    expected = (NOW_MS, NEWEST)
    assert ready_at_once(log.max_timestamp) == expected
    if not is_closed:
        log.roll()
    log.append(batch(b"v", timestamp=NOW_MS - BATCHES), leader_epoch=0)
    log.flush()
    journal = Journal(tree)
    for at in range(len(disk.operations) + 1):
        for choices, left in journal.states(limit=STATES, seed=at):
            after, _ = opened(left, is_clean=False, end_offset=end)
            assert ready_at_once(after.max_timestamp) == expected, f"operation {at}, choices {choices}"
            assert headers(ready_at_once(lambda: after.read(BATCHES // 2, 1)))[0].base_offset == BATCHES // 2  # noqa: B023
        journal.replay(disk.operations[at : at + 1])

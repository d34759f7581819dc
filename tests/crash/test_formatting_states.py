"""Power cut during formatting: the metadata is blank or complete, and a second try completes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.cluster.directory import is_blank, load_meta_properties
from kwire.cluster.formatting.formatting import bootstrap_records
from kwire.cluster.formatting.initial_controllers import parse_initial_controllers
from kwire.cluster.formatting.node_formatting import NodeFormat, format_node
from kwire.cluster.metadata.features import FORMATTED
from kwire.cluster.quorum.voters import VoterSet
from kwire.cluster.raft.snapshots import decode_snapshot
from kwire.protocol.control_records import ControlRecordType
from kwire.seams import SystemRandomSource
from tests.crash.disk import RecordingDisk, Tree
from tests.crash.journal import Journal
from tests.log.support import ManualClock

START: Tree = {"data": {}}
METADATA_DIR, OTHER_DIR = "/data/deep/b", "/data/a"
SNAPSHOT = f"{METADATA_DIR}/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
VOTERS = parse_initial_controllers("1@h:1:JEXY6aqzQY-32P5TStzaFg,2@i:2:MvDxzVmcRsaTz33bUuRU6A", "CONTROLLER")
STATES_PER_OPERATION = 40


def formatted(disk: RecordingDisk, voters: VoterSet | None) -> None:
    wanted = NodeFormat(
        cluster_id="c",
        node_id=1,
        log_dirs=(METADATA_DIR, OTHER_DIR),
        metadata_dir=METADATA_DIR,
        features=FORMATTED,
        voters=voters,
    )
    format_node(
        wanted,
        disk=disk,
        random_source=SystemRandomSource(1),
        clock=ManualClock(),
        say=lambda line: None,
        ignore_formatted=True,
    )


def states_after(disk: RecordingDisk, start: Tree) -> Iterator[tuple[int, Tree]]:
    """Yield the states that a power cut before each operation, and after the last, may leave."""
    journal = Journal(start)
    for at in range(len(disk.operations) + 1):
        for _, tree in journal.states(limit=STATES_PER_OPERATION, seed=at, free_order=at % 3):
            yield at, tree
        journal.replay(disk.operations[at : at + 1])


def check_whole(disk: RecordingDisk, voters: VoterSet | None) -> None:
    for directory in (METADATA_DIR, OTHER_DIR):
        meta = load_meta_properties(disk, directory)
        assert meta is not None
        assert (meta.cluster_id, meta.node_id) == ("c", 1)
        assert len(bootstrap_records(disk, directory)) == len(FORMATTED)
    assert disk.exists(SNAPSHOT) == (voters is not None)
    if voters is not None:
        _, named = decode_snapshot(disk.read(SNAPSHOT)).controls
        assert named == (ControlRecordType.KRAFT_VOTERS, voters.to_record())


def has_voters_but_no_identity(disk: RecordingDisk) -> bool:
    return disk.exists(SNAPSHOT) and is_blank(disk, METADATA_DIR)


@pytest.mark.parametrize("again", [VOTERS, None])
def test_a_power_cut_leaves_a_directory_blank_or_formatted(again: VoterSet | None) -> None:
    first = RecordingDisk(START)
    formatted(first, VOTERS)
    unfinished = 0
    for _, tree in states_after(first, START):
        disk = RecordingDisk(tree)
        if is_blank(disk, METADATA_DIR):
            unfinished += 1
            formatted(disk, again)
            check_whole(disk, again)
        else:
            check_whole(disk, VOTERS)
    assert unfinished > 100


def test_a_power_cut_after_formatting_loses_nothing() -> None:
    disk = RecordingDisk(START)
    formatted(disk, VOTERS)
    journal = Journal(START)
    journal.replay(disk.operations)
    for _, tree in journal.states(limit=STATES_PER_OPERATION, seed=1, free_order=2):
        check_whole(RecordingDisk(tree), VOTERS)


def test_no_voters_of_a_first_try_come_back_after_a_second_power_cut() -> None:
    """The first try has written voters; the second has none, and is interrupted as well."""
    first = RecordingDisk(START)
    formatted(first, VOTERS)
    left = next(tree for _, tree in states_after(first, START) if has_voters_but_no_identity(RecordingDisk(tree)))
    second = RecordingDisk(left)
    formatted(second, None)
    for _, tree in states_after(second, left):
        disk = RecordingDisk(tree)
        if not is_blank(disk, METADATA_DIR):
            check_whole(disk, None)

"""Replay after compaction: a coordinator loads the same state from its log as before."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.coordinator.group.classic.classic_group import ClassicGroup
from tests.coordinator.group_script import ScriptRunner
from tests.coordinator.test_replay import COMMANDS, written_state
from tests.log.compaction.support import compact
from tests.virtual_loop import virtual_loop

ORDINARY = COMMANDS.filter(lambda command: command != "reject-appends")
CONFIG = "config initial_rebalance_delay_ms=1 offsets_retention_ms=60000 retention_check_interval_ms=15000"


def compact_offsets(runner: ScriptRunner) -> None:
    """Compact all records so far, with tombstones that the next round removes."""
    log = runner.world.offsets_partition().log
    config = dataclasses.replace(
        log.config, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, delete_retention_ms=0
    )
    log.update_config(config)
    log.roll()
    compact(log, now_ms=runner.world.clock.wall_ms())


def recorded_state(runner: ScriptRunner) -> dict[str, object]:
    """Return the state without groups that have no record left: they had only offsets, which were deleted."""
    state = written_state(runner, with_empty=True)
    groups = cast("dict[str, ClassicGroup]", runner.world.group_machine().groups)
    offsets = cast("dict[str, dict[object, object]]", state["offsets"])
    gone = [name for name, group in groups.items() if not group.generation_id and not offsets[name]]
    kept = {name: what for name, what in state.items() if name not in gone}
    return kept | {"offsets": {name: what for name, what in offsets.items() if what}}


@settings(max_examples=40, deadline=None)
@given(st.lists(ORDINARY, max_size=15), st.lists(ORDINARY, max_size=15))
def test_replay_gives_what_was_written_before_compaction(first: list[str], second: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory, virtual_loop() as loop:
        runner = ScriptRunner(Path(directory), loop)
        for commands in ([CONFIG, "allow-appends", *first], second):
            for command in commands:
                loop.run_until_complete(runner.run(command))
            compact_offsets(runner)
        before = recorded_state(runner)
        loop.run_until_complete(runner.run("restart"))
        after = recorded_state(runner)
        assert {name: after.get(name) for name in before} == before
        runner.stop()


def test_compaction_leaves_one_record_of_each_offset(tmp_path: Path) -> None:
    with virtual_loop() as loop:
        runner = ScriptRunner(tmp_path, loop)
        for command in [CONFIG, *(f"commit - t-0={offset}" for offset in range(10))]:
            loop.run_until_complete(runner.run(command))
        log = runner.world.offsets_partition().log
        size, before = log.size_in_bytes, written_state(runner, with_empty=True)
        compact_offsets(runner)
        assert log.size_in_bytes < size / 2
        loop.run_until_complete(runner.run("restart"))
        assert written_state(runner, with_empty=True) == before
        runner.stop()

"""Cleaner checkpoints at start after logs were truncated or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.compaction.support import append
from tests.server.compaction.test_cleaner import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "d")


def test_a_deleted_topic_leaves_the_checkpoint_while_another_log_is_cleaned(world: World) -> None:
    """A round may take hours, and end with the broker: a new topic with this name would count as clean."""
    world.log("orders")
    assert world.clean()
    assert world.checkpoint() == {("orders", 0): 10}
    world.log("others")
    seen: list[dict[tuple[str, int], int]] = []

    def delete() -> None:
        world.rounds.between = lambda: None
        world.logs.delete("orders", 0)
        seen.append(world.checkpoint())

    world.rounds.between = delete
    assert world.clean()
    assert seen == [{}]
    assert world.checkpoint() == {("others", 0): 10}


@pytest.mark.parametrize("is_clean", [True, False])
def test_records_appended_after_a_truncation_are_dirty_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    """Otherwise its keys would never be compacted: older values stay, and return when tombstones are removed."""
    world = World(tmp_path / "d")
    log = world.log("orders")
    assert world.clean()
    assert world.checkpoint() == {("orders", 0): 10}
    log.truncate_to(5)
    assert world.checkpoint() == {}
    for _ in range(8):
        append(log, (b"k", None))
    log.flush()
    world.logs.close(clean=is_clean)
    again = World(tmp_path / "d").logs.get("orders", 0)
    assert again is not None
    assert (again.offsets.first_dirty, again.log_end_offset) == (0, log.log_end_offset)

"""Compaction rounds whose log is truncated or deleted during the round, in virtual time."""

from __future__ import annotations

import pytest

from kwire.log.errors import CorruptLogError
from kwire.server.compaction.rounds import RoundFailedError
from tests.log.compaction.support import append
from tests.log.support import batch
from tests.server.compaction.test_cleaner import World, offsets, world

__all__ = ["world"]


def test_a_round_that_is_overtaken_is_over_before_the_next_begins(world: World) -> None:
    """Otherwise the next log's round would receive the remaining reports."""
    world.log("orders")
    world.rounds.between = lambda: world.logs.delete("orders", 0)
    assert world.clean()
    assert world.rounds.running == 0


def test_a_log_that_is_cut_and_refilled_meanwhile_keeps_its_new_records(world: World) -> None:
    """After an unclean election, the new leader's segment has the same name as the segment being compacted."""
    log = world.log("orders", dirty=20)

    def cut() -> None:
        world.rounds.between = lambda: None
        log.truncate_to(4)
        for index in range(4, 12):
            log.append(batch(b"new", key=b"new %d" % index), leader_epoch=1)
        log.roll()
        append(log, (b"last", b"x"))

    world.rounds.between = cut
    assert world.clean()
    assert offsets(log) == list(range(13))
    assert log.offsets.first_dirty == 0
    log.flush()
    assert world.clean()
    assert offsets(log) == list(range(2, 13))


@pytest.mark.parametrize("error", [CorruptLogError("a cut batch"), RoundFailedError("a cut batch")])
def test_a_round_that_fails_after_a_truncation_does_not_fail_the_log(world: World, error: Exception) -> None:
    log = world.log("orders")

    def cut() -> None:
        log.truncate_to(4)
        raise error

    for _ in range(5):
        world.rounds.between = cut
        assert world.clean()
        assert log.failure is None
        append(log, *[(b"%d" % (index % 2), b"x") for index in range(6)])
        log.roll()
        log.flush()
    world.rounds.between = lambda: None
    assert world.clean()
    assert offsets(log) == [8, 9]

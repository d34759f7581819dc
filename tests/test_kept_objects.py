"""When loaded objects are kept from the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kwire.kept_objects import BURST_SECONDS, RECORDS_MANY, THRESHOLDS, KeptObjects, collect_rarely


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_a_broker_loads_now_and_then_is_not_kept() -> None:
    """Whenever it begins to lead: what is in flight then would never be searched for cycles again."""
    now = 0.0
    kept = KeptObjects(lambda: now)
    for _ in range(9):
        kept.loaded(RECORDS_MANY - 1)
        now += BURST_SECONDS + 1
    assert gc.get_freeze_count() == 0


def test_what_is_loaded_at_once_is_kept() -> None:
    kept = KeptObjects(lambda: 0.0)
    kept.loaded(RECORDS_MANY // 2)
    assert gc.get_freeze_count() == 0
    for _ in range(2):
        kept.loaded(RECORDS_MANY // 2)
        assert gc.get_freeze_count() > 0
        gc.unfreeze()


def test_what_is_there_at_the_start_is_kept_and_cycles_are_still_found() -> None:
    collect_rarely()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == THRESHOLDS
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0

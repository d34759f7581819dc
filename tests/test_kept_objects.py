"""When loaded objects are kept from the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kwire.kept_objects import (
    BURST_SECONDS,
    COLLECTIONS_BETWEEN,
    LOOKS_MAX,
    RECORDS_MANY,
    REQUEST_BYTES_FEW,
    THRESHOLDS,
    FullCollections,
    KeptObjects,
    collect_rarely,
)


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


class Process:
    """What requests take of its memory, and when it collected, as a test has them."""

    def __init__(self) -> None:
        self.request_bytes = 0
        self.collections = COLLECTIONS_BETWEEN
        self.collected = 0
        self.looking = FullCollections(
            lambda: self.request_bytes, collections=lambda: self.collections, collect=self._collect
        )

    def _collect(self) -> None:
        self.collected += 1
        self.collections = 0


def test_a_full_collection_waits_until_it_is_of_use() -> None:
    process = Process()
    process.collections = COLLECTIONS_BETWEEN - 1
    process.looking.look()
    assert process.collected == 0
    process.collections += 1
    for _ in range(3):
        process.looking.look()
    assert process.collected == 1


def test_a_full_collection_waits_until_large_requests_are_answered() -> None:
    process = Process()
    process.request_bytes = REQUEST_BYTES_FEW + 1
    process.looking.look()
    assert process.collected == 0
    process.request_bytes = REQUEST_BYTES_FEW
    process.looking.look()
    assert process.collected == 1


def test_a_full_collection_does_not_wait_for_ever() -> None:
    process = Process()
    process.request_bytes = REQUEST_BYTES_FEW + 1
    for _ in range(LOOKS_MAX):
        assert process.collected == 0
        process.looking.look()
    assert process.collected == 1


def test_python_begins_no_full_collection_by_itself() -> None:
    gc.set_threshold(100, 10, THRESHOLDS[2])
    before = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(100_000)]
    assert len(kept) == 100_000
    assert gc.get_count()[2] >= COLLECTIONS_BETWEEN, "with CPython's own threshold there would have been one"
    assert gc.get_stats()[2]["collections"] == before

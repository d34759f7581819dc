"""Loaded objects that are excluded from garbage collection, and when that happens."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from kwire import kept_objects
from kwire.kept_objects import (
    BURST_SECONDS,
    BYTES_FOR_EACH,
    CHECKS_MAX,
    COLLECTIONS_BETWEEN,
    GROWTH_BYTES_MAX,
    PARTIAL_COLLECTIONS,
    RECORDS_MANY,
    REQUEST_BYTES_FEW,
    THRESHOLDS,
    Collector,
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


def test_small_loads_far_apart_do_not_freeze_objects() -> None:
    """If each new leadership froze all objects, cycles among the objects in flight would never be collected."""
    now = 0.0
    kept = KeptObjects(lambda: now)
    for _ in range(9):
        kept.loaded(RECORDS_MANY - 1)
        now += BURST_SECONDS + 1
    assert gc.get_freeze_count() == 0


def test_a_large_load_freezes_objects() -> None:
    kept = KeptObjects(lambda: 0.0)
    kept.loaded(RECORDS_MANY // 2)
    assert gc.get_freeze_count() == 0
    for _ in range(2):
        kept.loaded(RECORDS_MANY // 2)
        assert gc.get_freeze_count() > 0
        gc.unfreeze()


def test_objects_at_the_start_are_frozen_and_new_cycles_collected() -> None:
    collect_rarely()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == THRESHOLDS
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0


class Process:
    """A process with request memory, resident memory and collection counts that the test sets."""

    def __init__(self) -> None:
        self.request_bytes = self.resident_bytes = 0
        self.collections = COLLECTIONS_BETWEEN
        self.collected = 0
        self.looking = FullCollections(
            lambda: self.request_bytes,
            resident_bytes=lambda: self.resident_bytes,
            collections=lambda: self.collections,
            collect=self._collect,
        )

    def _collect(self) -> None:
        self.collected += 1
        self.collections = 0


def test_a_full_collection_waits_for_enough_partial_collections() -> None:
    process = Process()
    process.collections = COLLECTIONS_BETWEEN - 1
    process.looking.collect_if_due()
    assert process.collected == 0
    process.collections += 1
    for _ in range(3):
        process.looking.collect_if_due()
    assert process.collected == 1


def test_few_objects_that_have_grown_large_are_collected() -> None:
    """A few cycles of frames may hold gigabytes."""
    process = Process()
    process.collections = 0
    for _ in range(CHECKS_MAX + 1):
        process.looking.collect_if_due()
    assert process.collected == 0
    process.resident_bytes = GROWTH_BYTES_MAX
    process.looking.collect_if_due()
    assert process.collected == 1


def test_memory_growth_is_measured_from_the_minimum_since_the_last_collection() -> None:
    process = Process()
    process.resident_bytes = 6 * GROWTH_BYTES_MAX
    process.looking.collect_if_due()
    assert process.collected == 1
    process.resident_bytes = GROWTH_BYTES_MAX
    process.looking.collect_if_due()
    process.resident_bytes = 2 * GROWTH_BYTES_MAX
    process.looking.collect_if_due()
    assert process.collected == 2


def test_a_failed_collection_is_logged_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept_objects, "CHECK_SECONDS", 0.0)
    made: list[bool] = []

    def collect() -> None:
        made.append(bool(made))
        if len(made) == 1:
            raise MemoryError
        raise asyncio.CancelledError

    looking = FullCollections(
        lambda: 0, resident_bytes=lambda: 0, collections=lambda: COLLECTIONS_BETWEEN, collect=collect
    )
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(looking.run())
    assert made == [False, True]
    assert "no full garbage collection was made" in caplog.text


def test_a_full_collection_waits_until_large_requests_are_answered() -> None:
    process = Process()
    process.request_bytes = REQUEST_BYTES_FEW + 1
    process.looking.collect_if_due()
    assert process.collected == 0
    process.request_bytes = REQUEST_BYTES_FEW
    process.looking.collect_if_due()
    assert process.collected == 1


def test_a_full_collection_does_not_wait_while_memory_grows() -> None:
    process = Process()
    process.request_bytes = REQUEST_BYTES_FEW + 1
    process.resident_bytes = GROWTH_BYTES_MAX + BYTES_FOR_EACH * process.request_bytes - 1
    process.looking.collect_if_due()
    assert process.collected == 0, "it may be what the requests take"
    process.resident_bytes += 1
    process.looking.collect_if_due()
    assert process.collected == 1
    process.collections = COLLECTIONS_BETWEEN
    process.looking.collect_if_due()
    assert process.collected == 1, "what is left counts anew"


def test_a_full_collection_does_not_wait_for_ever() -> None:
    process = Process()
    process.request_bytes = REQUEST_BYTES_FEW + 1
    for _ in range(CHECKS_MAX):
        assert process.collected == 0
        process.looking.collect_if_due()
    assert process.collected == 1


def test_python_begins_no_full_collection_by_itself() -> None:
    gc.set_threshold(100, 10, THRESHOLDS[2])
    before = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(100_000)]
    assert len(kept) == 100_000
    assert gc.get_count()[2] >= COLLECTIONS_BETWEEN, "with CPython's own threshold there would have been one"
    assert gc.get_stats()[2]["collections"] == before


def test_postponed_checks_are_reset_when_no_collection_is_due() -> None:
    process = Process()
    process.request_bytes = REQUEST_BYTES_FEW + 1
    for _ in range(CHECKS_MAX - 1):
        process.looking.collect_if_due()
    process.collections = 0
    process.looking.collect_if_due()
    process.collections = COLLECTIONS_BETWEEN
    process.looking.collect_if_due()
    assert process.collected == 0


class Cycle:
    """An object that only a garbage collection can free."""

    def __init__(self) -> None:
        self.itself = self


def test_a_full_collection_leaves_out_what_was_alive_at_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_objects, "FROZEN_MAX", 2**31)  # the limit ignores objects of other tests
    collector = Collector()
    old = Cycle()
    is_alive = weakref.ref(old)
    collector.collect()
    assert gc.get_freeze_count() > 0
    del old
    for _ in range(PARTIAL_COLLECTIONS - 2):
        young = weakref.ref(Cycle())
        collector.collect()
        assert young() is None
        assert is_alive() is not None
    collector.collect()
    assert is_alive() is None, "the last of so many looks at everything"


def test_no_full_collection_runs_with_very_many_frozen_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_objects, "FROZEN_MAX", 0)
    collector = Collector()
    old = Cycle()
    is_alive = weakref.ref(old)
    collector.collect()
    del old
    for _ in range(PARTIAL_COLLECTIONS):
        collector.collect()
    assert is_alive() is not None


def test_garbage_of_the_start_is_collected_before_objects_are_frozen() -> None:
    left = weakref.ref(Cycle())
    collect_rarely()
    assert left() is None

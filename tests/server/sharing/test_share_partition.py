"""Rules of a share partition one by one; test_fuzzed_share_partitions.py has their combinations."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import pytest

from kwire.chunks import at_once
from kwire.server.sharing.acquiring import RANGES_MAX, Asked, throttled_from, without
from kwire.server.sharing.config import ShareGroupSettings
from kwire.server.sharing.offset_reset import duration_ms
from kwire.server.sharing.share_partition import SharePartition
from kwire.server.sharing.states import Acknowledgement, Acquired, AcquireMode, RecordState, Span
from tests.support.loop_steps import LINES_MAX, longest_step_of, needs_lines

SETTINGS = ShareGroupSettings(
    lock_duration_ms=1000,
    delivery_limit=5,
    record_locks_max=10_000,
    offset_reset="earliest",
    isolation_level="read_uncommitted",
    renews_locks=True,
)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def loaded(*batches: tuple[int, int, int, int], **settings: Any) -> SharePartition:
    """Return a share partition that starts at 0, with stored batches."""
    chosen = dataclasses.replace(SETTINGS, **settings)
    share = SharePartition(0, settings=lambda: chosen)
    at_once(share.load(batches))
    return share


def take(
    share: SharePartition, last: int, *, records_max: int = 500, mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
) -> list[Acquired]:
    """Acquire from one batch of the log, from 0 to `last`."""
    asked = Asked("m", 1, mode, 500, records_max)
    return share.acquire(asked, share.next_fetch_offset(), [Span(0, last)], 0.0)


def settle(share: SharePartition, first: int, last: int, *types: int) -> None:
    change = at_once(share.acknowledge("m", [Acknowledgement(first, last, list(types))], 0.0))
    at_once(share.finish(change, is_stored=True, now_ms=0.0))


@pytest.mark.parametrize(("limit", "count"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)])
def test_records_are_throttled_from_half_of_the_limit(limit: int, count: int) -> None:
    assert throttled_from(limit) == count


def test_each_delivery_of_a_throttled_batch_is_half_as_large() -> None:
    share = loaded((0, 63, 0, 5), delivery_limit=10)
    sizes = []
    for _ in range(4):
        ((first, last, count),) = take(share, 63)
        sizes.append((last - first + 1, count))
        settle(share, first, last, RELEASE)
    assert sizes == [(32, 6), (16, 7), (8, 8), (4, 9)]
    assert take(share, 63) == [(0, 0, 10)]


def test_other_records_are_not_delivered_with_throttled_ones() -> None:
    share = loaded((0, 3, 0, 1), (4, 7, 0, 3))
    assert take(share, 7) == [(0, 3, 2)]
    assert take(share, 7) == [(4, 5, 4)]


def test_a_hole_in_the_stored_state_is_available() -> None:
    share = loaded((3, 4, 2, 1), (6, 6, 0, 2))
    assert (share.start_offset, share.next_offset, share.delivery_complete_count) == (0, 7, 2)
    assert take(share, 9) == [(0, 2, 1), (5, 5, 1), (6, 6, 3), (7, 9, 1)]


@pytest.mark.parametrize("batches", [[(2, 1, 0, 1)], [(0, 4, 0, 1), (4, 5, 0, 1)], [(3, 4, 0, 1), (0, 1, 0, 1)]])
def test_an_inconsistent_stored_state_is_rejected(batches: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(ValueError, match="stored state"):
        loaded(*batches)


def test_one_type_for_each_record() -> None:
    share = loaded()
    assert take(share, 4) == [(0, 4, 1)]
    settle(share, 0, 4, ACCEPT, RELEASE, RELEASE, REJECT, 0)
    assert [(run.first, run.last, run.state) for run in share.runs()] == [
        (1, 2, RecordState.AVAILABLE),
        (3, 4, RecordState.ARCHIVED),
    ]


def test_a_lock_that_expires_while_its_acknowledgement_is_stored() -> None:
    share = loaded()
    take(share, 0)
    change = at_once(share.acknowledge("m", [Acknowledgement(0, 0, [ACCEPT])], 10.0))
    assert not share.expire(2000.0).batches
    assert share.next_fetch_offset() == 1
    at_once(share.finish(change, is_stored=False, now_ms=2001.0))
    assert share.next_fetch_offset() == 0, "it is released, because its lock has expired"


def test_parts_of_ranges_are_removed() -> None:
    ranges = [Acquired(0, 9, 1), Acquired(10, 19, 2), Acquired(30, 30, 1)]
    removed = [Span(0, 1), Span(5, 6), Span(9, 10), Span(30, 40)]
    assert without(ranges, removed) == [(2, 4, 1), (7, 8, 1), (11, 19, 2)]
    assert without(ranges, []) == ranges


@pytest.mark.parametrize(
    ("text", "value"),
    [("PT1H", 3_600_000), ("P1DT2M", 86_520_000), ("PT0.5S", 500), ("+pt1.25s", 1250), ("P2D", 172_800_000)],
)
def test_durations(text: str, value: int) -> None:
    assert duration_ms(text) == value


@needs_lines
def test_many_records_are_changed_in_short_steps() -> None:
    count = SETTINGS.record_locks_max
    share = loaded()
    assert take(share, count - 1, records_max=count) == [(0, count - 1, 1)]
    types = [RELEASE if number % 2 else REJECT for number in range(count - 1)]
    acknowledgement = [Acknowledgement(1, count - 1, types)]
    changes = []

    def acknowledge() -> Generator[None, None, None]:
        changes.append((yield from share.acknowledge("m", acknowledgement, 0.0)))

    assert longest_step_of(acknowledge()) < LINES_MAX
    assert share.runs_count == count
    assert longest_step_of(share.finish(changes[0], is_stored=True, now_ms=0.0)) < LINES_MAX

    def acquire() -> Generator[None, None, None]:
        yield
        assert len(take(share, count - 1, records_max=count)) == RANGES_MAX

    assert longest_step_of(acquire()) < 2 * LINES_MAX
    assert longest_step_of(share.release("m", 1)) < LINES_MAX

    def expire() -> Generator[None, None, None]:
        yield
        while (share.next_deadline_ms or 2e9) < 1e9:
            share.expire(1e9)
            yield

    assert longest_step_of(expire()) < LINES_MAX

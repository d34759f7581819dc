"""First offsets that a broker remembers: for some time, and not without a limit."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.server.sharing import chosen_starts
from kwire.server.sharing.chosen_starts import KEPT_MS, ChosenStart, ChosenStarts

KEYS = [(UUID(int=1), index) for index in range(5)]
START = ChosenStart(state_epoch=2, offset=7)


class SetClock:
    def __init__(self) -> None:
        self.now_ms = 0.0

    def wall_ms(self) -> int:
        raise AssertionError("a wall clock may be set back")

    def monotonic_ms(self) -> float:
        return self.now_ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def starts(clock: SetClock) -> ChosenStarts:
    return ChosenStarts(clock)


def test_a_first_offset_is_remembered_for_one_share_partition_and_taken_once(starts: ChosenStarts) -> None:
    starts.remember("g", KEYS[0], START)
    assert starts.take("other", KEYS[0]) is None
    assert starts.take("g", KEYS[1]) is None
    assert starts.take("g", KEYS[0]) == START
    assert starts.take("g", KEYS[0]) is None


@pytest.mark.parametrize(("ms", "expected"), [(KEPT_MS - 1, START), (KEPT_MS, None)])
def test_a_first_offset_is_forgotten_after_some_time(
    starts: ChosenStarts, clock: SetClock, ms: int, expected: ChosenStart | None
) -> None:
    starts.remember("g", KEYS[0], START)
    clock.now_ms = ms
    assert starts.take("g", KEYS[0]) == expected


def test_the_oldest_first_offset_is_forgotten_when_there_are_too_many(
    starts: ChosenStarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_starts, "STARTS_MAX", 3)
    for key in (*KEYS[:3], KEYS[0], KEYS[3]):
        starts.remember("g", key, START)
    assert len(starts) == 3
    assert [starts.take("g", key) for key in KEYS[:4]] == [START, None, START, START]


def test_long_group_ids_are_forgotten_earlier(starts: ChosenStarts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_starts, "CHARACTERS_MAX", 100)
    for name in ("a" * 40, "b" * 40, "b" * 40, "c" * 40):
        starts.remember(name, KEYS[0], START)
    assert [starts.take(name * 40, KEYS[0]) for name in "abc"] == [None, START, START]
    starts.remember("d" * 101, KEYS[0], START)
    assert len(starts) == 0
    starts.remember("e" * 100, KEYS[0], START)
    assert len(starts) == 1

"""Planted bugs of the quorum: random seeds found each of them soon enough; quickly found ones are found again."""

from __future__ import annotations

import pytest

from tests.planted.quorum_bugs import QUORUM_BUGS
from tests.planted.quorum_seeds import QUORUM_SEARCH
from tests.planted.seed_search import MEDIAN_MAX, SEEDS_MAX, STARTS
from tests.support.compiled import replaces_methods

RESULTS = QUORUM_SEARCH.recorded()
OFTEN = [name for name, found in RESULTS.items() if found.median <= 3]
TRIES_MAX = 60


@pytest.mark.long
@replaces_methods
@pytest.mark.parametrize("name", OFTEN)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert QUORUM_SEARCH.finds_again(name, monkeypatch, tries=TRIES_MAX)


@pytest.mark.parametrize("name", QUORUM_BUGS.bugs)
def test_random_seeds_find_each_planted_bug_soon(name: str) -> None:
    found = RESULTS[name]
    assert len(found.counts) == len(STARTS)
    assert found.median <= MEDIAN_MAX
    assert found.most <= SEEDS_MAX


def test_each_measured_result_belongs_to_a_planted_bug() -> None:
    assert list(RESULTS) == list(QUORUM_BUGS.bugs)
    assert len(OFTEN) >= 16

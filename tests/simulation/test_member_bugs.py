"""Planted bugs of the cluster's groups: random seeds found each of them soon enough, and some are found again."""

from __future__ import annotations

import pytest

from tests.planted.member_seeds import MEMBER_SEARCH
from tests.support.compiled import replaces_methods

RESULTS = MEMBER_SEARCH.recorded()
AGAIN = [name for name, found in RESULTS.items() if found.most == 1][::2]
"""Every other of the bugs that the first seed finds."""
TRIES_MAX = 10
MEDIAN_MAX = 10


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # clients that a found bug interrupts
@replaces_methods
@pytest.mark.parametrize("name", AGAIN)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MEMBER_SEARCH.finds_again(name, monkeypatch, tries=TRIES_MAX)


@pytest.mark.parametrize("name", RESULTS)
def test_random_seeds_find_each_planted_bug_soon(name: str) -> None:
    found = RESULTS[name]
    assert len(found.counts) == len(MEMBER_SEARCH.starts)
    assert found.median <= MEDIAN_MAX


def test_each_planted_bug_has_a_measured_result() -> None:
    assert list(RESULTS) == list(MEMBER_SEARCH.bugs)

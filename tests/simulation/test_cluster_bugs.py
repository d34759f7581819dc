"""Planted bugs of the cluster: random seeds found each of them soon enough; quickly found ones are found again."""

from __future__ import annotations

import pytest

from tests.planted.cluster_seeds import CLUSTER_SEARCH
from tests.planted.seed_search import MEDIAN_MAX, SEEDS_MAX, STARTS
from tests.support.compiled import replaces_methods

BUGS_LEAST = 15
RESULTS = CLUSTER_SEARCH.recorded()
AT_ONCE = [name for name, found in RESULTS.items() if found.most == 1]
TRIES_MAX = 30


@pytest.mark.long
@replaces_methods
@pytest.mark.parametrize("name", AT_ONCE)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CLUSTER_SEARCH.finds_again(name, monkeypatch, tries=TRIES_MAX)


@pytest.mark.parametrize("name", RESULTS)
def test_random_seeds_find_each_planted_bug_soon(name: str) -> None:
    found = RESULTS[name]
    assert len(found.counts) == len(STARTS)
    assert found.median <= MEDIAN_MAX
    assert found.most <= SEEDS_MAX


def test_each_planted_bug_has_a_measured_result() -> None:
    assert list(RESULTS) == list(CLUSTER_SEARCH.bugs)
    assert len(RESULTS) >= BUGS_LEAST

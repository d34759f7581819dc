"""Planted bugs: if a guard or an fsync is removed, a crash state breaks an invariant."""

from __future__ import annotations

import pytest

from tests.crash.workloads import go_through
from tests.planted.crash_bugs import CRASH_BUGS

STATES_MAX = 20_000
"""Limit of states until a planted bug is found."""


@pytest.mark.long
@pytest.mark.parametrize("name", CRASH_BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = CRASH_BUGS[name]
    bug.plant(monkeypatch)
    outcome, found, _ = go_through(bug.workload, states=STATES_MAX, first_seed=1)
    assert found, f"{outcome.states} states show nothing"

"""The states find what they are for: with a guard taken away, or an fsync left out, an invariant breaks."""

from __future__ import annotations

import pytest

from tests.crash.workloads import go_through
from tests.planted.crash_bugs import CRASH_BUGS

STATES_MAX = 20_000
"""By when a planted bug must show."""


@pytest.mark.long
@pytest.mark.parametrize("name", CRASH_BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = CRASH_BUGS[name]
    bug.plant(monkeypatch)
    outcome, found, _ = go_through(bug.workload, states=STATES_MAX, first_seed=1)
    assert found, f"{outcome.states} states show nothing"

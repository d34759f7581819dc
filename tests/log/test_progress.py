"""Progress messages of long work."""

import pytest

from kwire.log.progress import CHECK_BYTES, BytesProgress, Progress
from tests.log.support import ManualClock


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", "kwire.log.progress")
    return caplog


def test_progress_is_logged_once_a_second(said):
    clock = ManualClock()
    progress = Progress("Work", 5, clock)
    for _ in range(5):
        clock.now_ms += 500
        progress.count_one()
    assert said.messages == ["Work: 5 to do", "Work: 2 of 5 done", "Work: 4 of 5 done", "Work: 5 of 5 done"]


def test_quiet_progress_logs_nothing_in_the_first_second(said):
    clock = ManualClock()
    progress = Progress("Work", 2, clock, quiet=True)
    progress.count_one()
    clock.now_ms += 1000
    progress.count_one()
    assert said.messages == ["Work: 2 of 2 done"]


def test_a_long_read_logs_its_progress(said):
    clock = ManualClock()
    progress = BytesProgress("Reading", 100 * CHECK_BYTES, clock)
    for step in range(1, 5):
        clock.now_ms += 500
        progress.reached(step * CHECK_BYTES)
        progress.reached(step * CHECK_BYTES + 1)
    assert said.messages == ["Reading: 8 of 400 MiB read", "Reading: 16 of 400 MiB read"]

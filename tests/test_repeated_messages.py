"""Log messages that repeat: logged once, then once a minute with a count."""

from __future__ import annotations

import logging

import pytest

from kwire.repeated_messages import INTERVAL_MS, SUBJECTS_MAX, RepeatedMessages

logger = logging.getLogger("kwire.test")


def test_a_message_is_logged_once_and_counted_until_a_minute_has_passed(caplog: pytest.LogCaptureFixture) -> None:
    now = [5.0]
    messages = RepeatedMessages(logger, lambda: now[0])
    for _ in range(20):
        messages.log(logging.WARNING, "one", "%s asks for %d", "a % client", 7)
        now[0] += INTERVAL_MS / 21
    messages.log(logging.WARNING, "two", "another")
    now[0] += INTERVAL_MS
    for _ in range(2):
        messages.log(logging.WARNING, "one", "%s asks for %d", "a % client", 7)
        now[0] += INTERVAL_MS
    assert [record.getMessage() for record in caplog.records] == [
        "a % client asks for 7",
        "another",
        "a % client asks for 7 (19 more times since this was last logged)",
        "a % client asks for 7",
    ]


def test_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    messages = RepeatedMessages(logger, lambda: 0.0)
    for subject in range(3 * SUBJECTS_MAX):
        messages.log(logging.WARNING, subject, "once")
        messages.log(logging.WARNING, 0, "again and again")
    assert len(messages._subjects) == SUBJECTS_MAX
    assert sum(record.getMessage() == "again and again" for record in caplog.records) == 0, "0 is in use all the time"

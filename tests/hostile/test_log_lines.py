"""Names from clients in log messages: each message stays one line, and their number is limited."""

from __future__ import annotations

import logging

import pytest

from kwire.cli.log_lines import LINE_LENGTH_MAX, LINES_PER_SECOND, LineLimit, OneLineFormatter, one_line


def record(message: str, *args: object, level: int = logging.INFO, name: str = "kwire.x") -> logging.LogRecord:
    return logging.LogRecord(name, level, "x.py", 1, message, args, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("group g: stable", "group g: stable"),
        ("g\n2026-01-01 ERROR forged", r"g\n2026-01-01 ERROR forged"),
        ("\x1b[2J\r\0", r"\x1b[2J\r\x00"),
        ("é漢", "é漢"),
    ],
)
def test_a_message_is_one_line_without_control_characters(text: str, expected: str) -> None:
    assert OneLineFormatter("%(levelname)s %(message)s").format(record("%s", text)) == f"INFO {expected}"


def test_a_long_message_is_cut() -> None:
    assert one_line("x" * 32767) == "x" * LINE_LENGTH_MAX + "... (32767 characters)"


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        made = logging.LogRecord("kwire", logging.ERROR, "x.py", 1, "failed", (), (ValueError, error, None))
    assert OneLineFormatter("%(message)s").format(made) == "failed\nValueError: wrong"


def test_lines_of_one_kind_are_few_in_a_second() -> None:
    now = [10.0]
    limit = LineLimit(lambda: now[0])
    passed = sum(limit.filter(record("closing %d", number)) for number in range(LINES_PER_SECOND + 70))
    assert passed == LINES_PER_SECOND
    assert limit.filter(record("other", name="kwire.y"))
    assert limit.filter(record("trouble", level=logging.WARNING))
    now[0] = 11.0
    later = record("closing %d", 1)
    assert limit.filter(later)
    assert later.getMessage() == "closing 1 (70 lines were left out before)"

r"""Properties files as java.util.Properties reads them: escapes, continued lines, `=`, `:` or a blank as separator.

compat_tests/configs/test_properties_files.py compares the results with Java's. docs/decisions/0001-libraries.md
explains why no library is used. Files are UTF-8; Kafka reads them as ISO 8859-1, for which users write `\uXXXX`. These
escapes work here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLANK = r"[ \t\f]"
LINE_END = r"(?:\r\n|\r|\n)"
BLANK_LINE = re.compile(rf"{BLANK}*(?:[#!][^\r\n]*|\\(?![\r\n]?\Z))?(?:{LINE_END}|\Z)")
"""Line without a setting: empty, a comment (which no backslash continues), or a single backslash.

In the last line, Java reads a single backslash as an empty key and value.
"""
LOGICAL_LINE = re.compile(rf"{BLANK}*((?:[^\\\r\n]|\\{LINE_END}|\\[^\r\n]|\\\Z)*)(?:{LINE_END}|\Z)")
"""Setting, over as many lines as backslashes continue."""
CONTINUATION = re.compile(rf"(\\[^\r\n])|\\{LINE_END}{BLANK}*|\\\Z")
"""Escape, which is kept, or backslash at the end of a line, which is removed."""
KEY_AND_VALUE = re.compile(rf"((?:[^\\=: \t\f]|\\.)*){BLANK}*[=:]?{BLANK}*(.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
HEX_DIGITS = re.compile(r"[0-9a-fA-F]{4}")
CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    r"""Return the keys and values of a properties file; the last value of a repeated key.

    Raises ValueError for a malformed \uXXXX escape, where Java raises IllegalArgumentException.
    """
    properties = {}
    for line in _logical_lines(text):
        split = KEY_AND_VALUE.match(line)
        assert split is not None, "any line has a key and a value, which may be empty"
        key, value = split.groups()
        properties[_unescape(key)] = _unescape(value)
    return properties


def escape_value(value: str) -> str:
    """Return a value escaped for use after `key=`, where `:` and `=` need no escape."""
    escaped = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    escaped = escaped.replace("\f", "\\f")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _logical_lines(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        if blank_line := BLANK_LINE.match(text, at):
            at = blank_line.end()
            continue
        line = LOGICAL_LINE.match(text, at)
        assert line is not None, "whatever is not a line's end is part of a line"
        at = line.end()
        yield CONTINUATION.sub(lambda found: found[1] or "", line[1])


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = ESCAPE.sub(_character, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _character(escape: re.Match[str]) -> str:
    digits, character = escape.groups()
    if digits is None:
        return CONTROL_CHARACTERS.get(character, character)
    if not HEX_DIGITS.fullmatch(digits):
        raise ValueError(f"{escape[0]} is no \\uXXXX escape")
    return chr(int(digits, 16))

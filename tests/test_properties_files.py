"""Properties files: the format that Java's Properties.store writes, and variants that people write by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.properties_files import escape_value, read_properties
from kwire.server.settings.config import SettingError, load_config


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb=2\\", {"a": "1", "b": "2"}),  # the last line ends with a continuation
        ("advertised.listeners=PLAINTEXT\\://here\\:9092", {"advertised.listeners": "PLAINTEXT://here:9092"}),
        ("node.id 3", {"node.id": "3"}),
        ("log.dirs=/d\\u00e4ta", {"log.dirs": "/däta"}),
        ("log.dirs=/däta", {"log.dirs": "/däta"}),
        ("a=1,\\\n   2", {"a": "1,2"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("# node.id=1\n! node.id=2\n\n", {}),
        ("a=1\na:2", {"a": "2"}),
        ("\\\n# node.id=1", {}),  # a lone backslash is an empty line, so a comment may follow,
        ("node.id=1\n\\", {"node.id": "1", "": ""}),  # except on the last line
        ("a=\\ud83d\\ude00", {"a": "\N{GRINNING FACE}"}),
    ],
)
def test_pairs_are_read_as_java_reads_them(text: str, pairs: dict[str, str]) -> None:
    assert read_properties(text) == pairs


def test_a_malformed_escape_is_rejected_with_one_line() -> None:
    with pytest.raises(SettingError, match=r"^the settings cannot be read: \\u00zz is no \\uXXXX escape$"):
        load_config("log.dirs=/d\\u00zz")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_is_read_back_as_it_was_written(value: str) -> None:
    assert read_properties(f"key={escape_value(value)}\n") == {"key": value}

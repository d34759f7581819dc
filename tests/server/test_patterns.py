"""Patterns of clients match what Python's engine matches, and never take long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.server.patterns import STATES_MAX, TEXT_MAX, Pattern, PatternRefusedError

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "-", "[a-c1]", "[]a]", r"[\]b]"])
QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])
SEQUENCES = st.lists(st.tuples(ATOMS, QUANTIFIERS).map("".join), max_size=4).map("".join)
PATTERNS = st.recursive(
    SEQUENCES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("|".join),
        st.tuples(st.sampled_from(["(", "(?:"]), inner, st.just(")"), QUANTIFIERS).map("".join),
        st.tuples(inner, inner).map("".join),
    ),
    max_leaves=4,
)
TEXTS = st.text(alphabet="ab1.-]\n", max_size=6)


@given(PATTERNS, st.lists(TEXTS, max_size=8))
def test_they_match_what_pythons_engine_matches(pattern: str, texts: list[str]) -> None:
    compiled = Pattern(pattern)
    for text in texts:
        assert compiled.matches(text) == (re.fullmatch(pattern, text, re.DOTALL) is not None), (pattern, text)


@pytest.mark.parametrize("pattern", ["^app-.*$", "app-.*$", "^app-.*"])
def test_anchors_at_the_ends_change_nothing(pattern: str) -> None:
    assert Pattern(pattern).matches("app-1")
    assert not Pattern(pattern).matches("my-app-1")


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a?){60}" + "a{60}", ".*" * 20 + "x", "(a|a)" * 100 + "x"])
def test_none_takes_long(pattern: str) -> None:
    began = time.monotonic()
    assert not Pattern(pattern).matches("a" * (TEXT_MAX - 1) + "!")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "(a", "[", "[a", "*a", "a**", "a++", "a{2}{2}", "{2}", "a{3,2}", "a{256}", "a{", "\\"),
        *(
            r"(a)\1",
            "(?=a)",
            "(?i)a",
            "(?P<n>a)",
            r"\bA",
            r"\p{L}",
            "[[a]]",
            "[a&&b]",
            "[b-a]",
            "a^",
            "$a",
            "(" * 60 + ")" * 60,
        ),
        "((a{200}){200})",
        "a" * (STATES_MAX + 1),
    ],
)
def test_what_cannot_be_followed_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefusedError):
        Pattern(pattern)


def test_a_very_long_text_matches_nothing() -> None:
    assert Pattern(".*").matches("a" * TEXT_MAX)
    assert not Pattern(".*").matches("a" * (TEXT_MAX + 1))

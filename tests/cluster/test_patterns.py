"""Patterns from clients: same matches as Python's engine, and never slow."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.chunks import Pieces, at_once
from kwire.cluster.patterns import (
    PATTERN_MAX,
    STATES_MAX,
    TEXT_MAX,
    WORK_AT_ONCE,
    Matcher,
    Pattern,
    PatternRejectedError,
)
from tests.support.compiled import IS_COMPILED
from tests.support.loop_steps import longest_step_of

LINES_PER_STEP = 200_000
"""Limit for one step: about 10 ms, since a line of Python takes 50 ns."""
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


def matches(pattern: Pattern, text: str) -> bool:
    return at_once(Matcher().matches(pattern, text))


@given(PATTERNS, st.lists(TEXTS, max_size=8))
def test_patterns_match_like_the_re_module(pattern: str, texts: list[str]) -> None:
    compiled = Pattern(pattern)
    for text in texts:
        assert matches(compiled, text) == (re.fullmatch(pattern, text, re.DOTALL) is not None), (pattern, text)


@pytest.mark.parametrize("pattern", ["^app-.*$", "app-.*$", "^app-.*"])
def test_anchors_at_the_ends_change_nothing(pattern: str) -> None:
    assert matches(Pattern(pattern), "app-1")
    assert not matches(Pattern(pattern), "my-app-1")


LONG = ["(a+)+", "(a|a)*", "(a?){60}a{60}", ".*" * 20 + "x", "(a|a)" * 70 + "x", "(?:" + "|".join("a" * 290) + ")*"]


@pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")
@pytest.mark.parametrize("pattern", LONG)
def test_a_step_of_a_match_is_short(pattern: str) -> None:
    compiled = Pattern(pattern)
    text = "a" * (TEXT_MAX - 1) + "!"
    assert longest_step_of(Matcher().matches(compiled, text)) < LINES_PER_STEP


def test_many_short_matches_share_a_step() -> None:
    compiled, matcher = Pattern("a"), Matcher()

    def match_all() -> Pieces[None]:
        for _ in range(WORK_AT_ONCE):
            yield from matcher.matches(compiled, "b")

    steps = sum(1 for _ in match_all())
    assert 5 < steps < WORK_AT_ONCE // 100


COSTLY = [
    "".join(f"[{chr(300 + number)}-{chr(30_000 + number)}]" for number in range(200)),
    "[" + "".join(f"{chr(300 + 3 * number)}-{chr(301 + 3 * number)}" for number in range(332)) + "]",
    "(?:" * 40 + "a" + "{1,2})" * 40,
    "(a{9}){33}" * 90,
    "(?:" + "|".join("." * 290) + ")*",
    "|".join("ab" * 145),
]


@pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")
@pytest.mark.parametrize("pattern", COSTLY, ids=range(len(COSTLY)))
def test_compiling_a_pattern_takes_a_bounded_time(pattern: str) -> None:
    assert len(pattern) <= PATTERN_MAX

    def compile_it() -> Pieces[None]:
        with suppress(PatternRejectedError):
            yield from Matcher().compile(pattern)

    assert longest_step_of(compile_it()) < LINES_PER_STEP


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
        "a" * 299 + "()" * 351,
        r"[a-\d]",
        r"[\d-a]",
        r"[\q]",
        r"[\1]",
    ],
)
def test_unsupported_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(PatternRejectedError):
        Pattern(pattern)


def test_a_very_long_text_matches_nothing() -> None:
    assert matches(Pattern(".*"), "a" * TEXT_MAX)
    assert not matches(Pattern(".*"), "a" * (TEXT_MAX + 1))
